"""Zip files from anywhere: only what they say they hold, in sizes that they say, and no more."""

import json
import zipfile
from collections.abc import Mapping
from os import PathLike
from pathlib import PurePosixPath
from typing import IO, Any

from .errors import TorchArchiveError

_MOST_ENTRIES = 100_000
_MOST_JSON_BYTES = 1 << 30
_MOST_RATIO = 200  # deflate reaches about 1000 on zeros, and 10 on programs written as JSON
_SMALL = 1 << 20  # whatever its ratio, so little harms nobody


class SealedZip:
    """The files of a zip by their names below its one folder; nothing is written to disk."""

    def __init__(self, source: str | PathLike[str] | IO[bytes], name: str) -> None:
        self.name = name
        try:
            self._zip = zipfile.ZipFile(source)
        except zipfile.BadZipFile as error:
            raise self.damaged(f"it is no zip file ({error})") from None
        found = self._zip.infolist()
        if len(found) > _MOST_ENTRIES:
            raise self.damaged(f"it lists {len(found)} files, more than {_MOST_ENTRIES}")
        self._entries = self._below_one_folder(found)

    def __contains__(self, path: object) -> bool:
        return path in self._entries

    def paths(self) -> list[str]:
        return list(self._entries)

    def read(self, path: str) -> bytes:
        """The bytes of a file, which are as many as the zip says, with its checksum."""
        entry = self._entries.get(path)
        if entry is None:
            raise self.damaged(f"there is no file `{path}` in it")
        if entry.file_size > _SMALL and entry.file_size > _MOST_RATIO * entry.compress_size:
            raise self.damaged(
                f"`{path}` unpacks from {entry.compress_size} bytes to {entry.file_size}"
            )
        try:
            data = self._zip.read(entry)
        except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, OSError) as error:
            raise self.damaged(f"`{path}` cannot be read ({error})") from None
        if len(data) != entry.file_size:
            raise self.damaged(f"`{path}` has not the {entry.file_size} bytes that it should")
        return data

    def read_json(self, path: str) -> Any:
        entry = self._entries.get(path)
        if entry is not None and entry.file_size > _MOST_JSON_BYTES:
            raise self.damaged(f"`{path}` is JSON of {entry.file_size} bytes")
        data = self.read(path)
        try:
            return json.loads(data)
        except RecursionError:
            raise self.damaged(f"`{path}` is nested too deep") from None
        except ValueError as error:
            raise self.damaged(f"`{path}` is no JSON ({error})") from None

    def damaged(self, what: str) -> TorchArchiveError:
        return TorchArchiveError(f"`{self.name}` is damaged, or no .pt2 file: {what}")

    def _below_one_folder(self, found: list[zipfile.ZipInfo]) -> Mapping[str, zipfile.ZipInfo]:
        """The files by their paths without the folder in front, which torch names as it likes."""
        entries: dict[str, zipfile.ZipInfo] = {}
        for entry in found:
            parts = PurePosixPath(entry.filename).parts
            if entry.filename.startswith("/") or "\\" in entry.filename or ".." in parts:
                raise self.damaged(f"it holds a file of the name {entry.filename!r}")
            path = "/".join(parts[1:])
            if path in entries:
                raise self.damaged(f"it holds `{path}` twice")
            entries[path] = entry
        if len({PurePosixPath(entry.filename).parts[0] for entry in found}) > 1:
            raise self.damaged("its files lie in several folders")
        return entries
