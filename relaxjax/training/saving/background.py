"""Work beside the training, one piece at a time."""

from collections.abc import Callable
from threading import Thread


class Background:
    """Does one piece of work at a time in a thread of its own.

    What the work raises is raised once, to whoever asks next.
    """

    def __init__(self) -> None:
        self._thread: Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        """Begin a piece of work, once that before it is done."""
        self.wait()
        self._thread = Thread(target=self._run, args=(work,), name="relaxjax-background")
        self._thread.start()

    def check(self) -> None:
        """Raise what the work has raised, if it has."""
        if self._thread is None or not self._thread.is_alive():
            self.wait()

    def wait(self) -> None:
        """Return once the work is done, or raise what it raised."""
        self.settle()
        error, self._error = self._error, None
        if error is not None:
            raise error

    def settle(self, seconds: float | None = None) -> None:
        """Return once the work is done, whether well or not, or so many seconds later."""
        if self._thread is not None:
            self._thread.join(seconds)
            if not self._thread.is_alive():
                self._thread = None

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:
            self._error = error
