"""Changes and commits an index until it is killed: run by test_kills.py, which recomputes what must be there.

Reads lines `path kind first_step die_at` from its input and forks a process for each, which goes on from
`first_step` and prints `begin step` before and `done step` after every commit. With `die_at` it kills itself
at that call of a commit that writes; without (-1) it is killed or interrupted from outside. SIGINT and SIGTERM
raise KeyboardInterrupt and SystemExit wherever the process is: in a commit it prints `committed step` if the
exception says that the commit is there, `stopped step` if not; then it ends, in odd steps after another commit.
Prints `gone` when the process is.
"""

import os
import signal
import sys
from contextlib import suppress

import numpy as np

import pcpq
from pcpq.store import files
from pcpq.util import durable_files

D, N_LISTS, N_IDS = 4, 2, 60
FIRST = 40  # ids at the start


def vector_of(number, step):
    """(D,) what an id has since a step; short in binary, so that nothing is rounded."""
    return (np.random.default_rng([number, step]).integers(-512, 512, D) / 256).astype(np.float32)


def name_of(number, kind):
    """An id."""
    return number if kind == "int" else f"word {number} " + "é" * (number % 5)


def start():
    """The model of a new index: numbers and the steps that their vectors are of."""
    return dict.fromkeys(range(FIRST), 0)


def operations(step, model):
    """What happens in a step, in order; the model becomes that after it."""
    generator = np.random.default_rng([7, step])
    there = sorted(model)
    gone = [int(n) for n in generator.choice(there, generator.integers(0, 6), replace=False)] if there else []
    yield "remove", gone
    for number in gone:
        del model[number]
    free = [number for number in range(N_IDS) if number not in model]
    new = [int(n) for n in generator.permutation(free)[: generator.integers(1, 6)]]
    yield "add", new
    model.update(dict.fromkeys(new, step))
    again = [int(n) for n in generator.choice(N_IDS, generator.integers(1, 5), replace=False)]
    yield "upsert", again
    model.update(dict.fromkeys(again, step))
    if generator.random() < 0.25:
        yield "compact", []


def model_at(step):
    """After so many steps."""
    while len(MODELS) <= step:
        model = dict(MODELS[-1])
        for _ in operations(len(MODELS), model):
            pass
        MODELS.append(model)
    return dict(MODELS[step])


MODELS = [start()]


def apply(index, kind, step, model):
    """Do in an index what happens in a step."""
    for what, numbers in operations(step, model):
        names = [name_of(number, kind) for number in numbers]
        if what == "compact":
            index.compact()
        elif what == "remove":
            assert index.remove(names) == len(names)
        elif numbers:
            vectors = np.stack([vector_of(number, step) for number in numbers])
            (index.add if what == "add" else index.upsert)(vectors, names, threads=1)


def new_index(path, kind):
    """Step 0."""
    model = start()
    vectors = np.stack([vector_of(number, step) for number, step in model.items()])
    quantizer = pcpq.PQ(section_size=2, n_centers=4, max_iterations=2)
    index = pcpq.Index(metric="dot", quantizer=quantizer, n_lists=N_LISTS, keep="float32").fit(vectors)
    index.add(vectors, [name_of(number, kind) for number in model])
    index.save(path)


class DeadlyOs:
    """`os`, in which the process dies before one of the calls that change a disk."""

    calls = ("open", "write", "fsync", "replace", "unlink")

    def __init__(self, die_at):
        self.left = die_at

    def __getattr__(self, name):
        real = getattr(os, name)
        if name not in self.calls:
            return real

        def call(*arguments, **named):
            if self.left == 0:
                if name == "write":  # half of it
                    real(arguments[0], arguments[1][: len(arguments[1]) // 2])
                os.kill(os.getpid(), signal.SIGKILL)
            self.left -= 1
            return real(*arguments, **named)

        return call


def say(*parts):
    """Print a line in one call: the process may be killed within `print`."""
    os.write(1, (" ".join(map(str, parts)) + "\n").encode())


def run(path, kind, step, die_at):
    """Change and commit in a loop."""
    model = model_at(step)
    with pcpq.open(path, mode="a") as index:
        while True:
            step += 1
            apply(index, kind, step, model)
            say("begin", step, os.getpid())
            if die_at >= 0:
                files.os = durable_files.os = DeadlyOs(die_at)
            commit(index, step)
            say("done", step, os.getpid())
            if die_at >= 0:  # more calls than there are
                return


def commit(index, step):
    """Commit; if interrupted, say what the exception says, and try again in every other step."""
    try:
        index.commit()
    except (KeyboardInterrupt, SystemExit) as error:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        notes = getattr(error, "__notes__", [])
        say(
            "committed" if any("was committed before" in note for note in notes) else "stopped",
            step,
            os.getpid(),
        )
        if step % 2 == 0:
            raise
        index.commit()
        say("done", step, os.getpid())
        raise


def stop(number, frame):
    """What many programs do when they are told to end."""
    raise SystemExit(128 + number)


def main():
    """A process for every line; all start with everything imported."""
    for line in sys.stdin:
        path, kind, step, die_at = line.split("\t")
        model_at(int(step))  # once for all of them
        child = os.fork()
        if child == 0:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, stop)
            with suppress(BrokenPipeError, KeyboardInterrupt, SystemExit):
                run(path, kind, int(step), int(die_at))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        say("gone", status, child)


if __name__ == "__main__":
    main()
