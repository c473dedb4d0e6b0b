"""Calls in threads of their own that wait at a known point."""

import threading
from contextlib import contextmanager

import pcpq.store.store


def returns(call, *arguments, **named):
    """Return what a call returns, or raise what it raises; fail if it waits for more than 30 s."""
    found = []

    def work():
        try:
            found.append(call(*arguments, **named))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(30)
    assert found, "the call waits"
    if isinstance(found[0], BaseException):
        raise found[0]
    return found[0]


class Background:
    """A call in a thread of its own that waits at some point until `finish`."""

    def __init__(self):
        self.waiting, self.go_on = threading.Event(), threading.Event()
        self.result, self._thread = None, None

    def start(self, call, *arguments, **named):
        def work():
            try:
                self.result = call(*arguments, **named)
            except BaseException as error:
                self.result = error

        self._thread = threading.Thread(target=work, daemon=True)
        self._thread.start()
        assert self.waiting.wait(30)

    def wait(self):
        self.waiting.set()
        assert self.go_on.wait(30)

    def finish(self):
        """Let the call go on; return what it returned, or raise what it raised."""
        self.go_on.set()
        self._thread.join(30)
        assert not self._thread.is_alive()
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def batches(background, vectors):
    """Yield vectors in two batches; the second waits."""
    half = len(vectors) // 2
    yield vectors[:half]
    background.wait()
    yield vectors[half:]


@contextmanager
def held_commit(monkeypatch, background):
    """Make commits wait after their files are written, before the manifest names them."""
    real = pcpq.store.store.replace_file

    def replace_file(*paths):
        background.wait()
        real(*paths)

    with monkeypatch.context() as patch:
        patch.setattr(pcpq.store.store, "replace_file", replace_file)
        yield
