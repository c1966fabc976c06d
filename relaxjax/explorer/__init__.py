"""The explorer: a program, what passes made of it, what it costs and what memory it takes."""

from .document import SCHEMA as SCHEMA
from .document import Document as Document
from .explorer import Explorer as Explorer
from .explorer import explore as explore

__all__ = ["SCHEMA", "Document", "Explorer", "explore"]
