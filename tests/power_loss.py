"""What a disk may hold after a power loss: calls that change files are recorded and replayed up to any of them.

A file system promises little. What was written to a file and not synced may be there, be missing, be zeros, or
be there in part. Names that were made, replaced or removed in a directory since it was last synced may be so or
not, each by itself and in any order; only a rename is whole. A directory that was made, and its parent not
synced, may be gone with all it holds.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path


class RecordingOs:
    """`os`, which remembers what changed below a directory; `forget` are kinds of syncs that are not done."""

    def __init__(self, root, forget=()):
        self.root, self.forget = root, forget
        self.events = []
        self._descriptors, self._count = {}, 0
        self._ids = {}  # of files, by path

    def __getattr__(self, name):
        return getattr(os, name)

    def _note(self, *event):
        self.events.append(event)

    def mark(self, what):
        """Something that the program was told or did."""
        self._note("mark", what)

    def open(self, path, flags, *mode, **named):
        path = Path(path)
        new = flags & os.O_CREAT and not path.exists()
        descriptor = os.open(path, flags, *mode, **named)
        if new:
            self._count += 1
            self._ids[path] = self._count
            self._note("create", path, self._count)
        self._descriptors[descriptor] = path
        return descriptor

    def write(self, descriptor, content):
        written = os.write(descriptor, content)
        self._note(
            "write", self._ids[self._descriptors[descriptor]], bytes(memoryview(content).cast("B")[:written])
        )
        return written

    def fsync(self, descriptor):
        path = self._descriptors[descriptor]
        kind = "file" if not path.is_dir() else "directory" if (path / "lock").exists() else "parent"
        if kind not in self.forget:
            os.fsync(descriptor)
            self._note("sync", path if path.is_dir() else self._ids[path])

    def replace(self, new, old):
        os.replace(new, old)
        self._ids[Path(old)] = self._ids.pop(Path(new))
        self._note("rename", Path(new), Path(old))

    def link(self, old, new, **named):
        os.link(old, new, **named)
        self._ids[Path(new)] = self._ids[Path(old)]
        self._note("create", Path(new), self._ids[Path(old)])

    def unlink(self, path):
        os.unlink(path)
        self._note("unlink", Path(path))

    def mkdir(self, path):
        os.mkdir(path)
        self._note("mkdir", Path(path))


@dataclass
class File:
    content: bytes = b""
    synced: bytes = b""


@dataclass
class Directory:
    synced: dict = field(default_factory=dict)  # name -> id of a file, or Directory
    pending: list = field(
        default_factory=list
    )  # (name, id or Directory or None, name that goes with it or None)


class Disk:
    """What was synced, and what may have reached the disk besides."""

    def __init__(self, root):
        self.root = root
        self.files = {}
        self.directories = {root: Directory()}

    def apply(self, event):
        kind, *rest = event
        if kind == "create":
            path, number = rest
            self.files.setdefault(number, File())
            self._pend(path, number)
        elif kind == "write":
            self.files[rest[0]].content += rest[1]
        elif kind == "sync" and isinstance(rest[0], Path):
            directory = self.directories.get(rest[0])
            if directory is not None:
                for operation in directory.pending:
                    enter(directory.synced, operation)
                directory.pending.clear()
        elif kind == "sync":
            file = self.files[rest[0]]
            file.synced = file.content
        elif kind == "rename":
            new, old = rest
            self._pend(old, self._now(new), new.name)
        elif kind == "unlink":
            self._pend(rest[0], None)
        elif kind == "mkdir":
            self.directories[rest[0]] = made = Directory()
            self._pend(rest[0], made)

    def _pend(self, path, what, moved=None):
        if path.parent in self.directories:
            self.directories[path.parent].pending.append((path.name, what, moved))

    def _now(self, path):
        names = dict(self.directories[path.parent].synced)
        for operation in self.directories[path.parent].pending:
            enter(names, operation)
        return names[path.name]

    def after_loss(self, generator):
        """One of the trees that may be there, as a dict of paths and bytes (None: a directory)."""
        names = generator.choice(["none", "all", "some", "some in any order", "all but one"])
        data = generator.choice(["lost", "zeros", "half", "all", "mixed"])
        found, contents = {}, {}

        def content_of(number):
            if number not in contents:
                contents[number] = torn(self.files[number], data, generator)
            return contents[number]

        def walk(directory, path):
            entries = dict(directory.synced)
            for operation in survivors(directory.pending, names, generator):
                enter(entries, operation)
            for name, what in entries.items():
                if isinstance(what, Directory):
                    found[path / name] = None
                    walk(what, path / name)
                else:
                    found[path / name] = content_of(what)

        walk(self.directories[self.root], Path())
        return found


def enter(names, operation):
    """Carry out a change of a directory."""
    name, what, moved = operation
    if moved is not None:
        names.pop(moved, None)
    if what is None:
        names.pop(name, None)
    else:
        names[name] = what


def survivors(pending, names, generator):
    """Changes of a directory that reached the disk."""
    if names == "none":
        return []
    kept = list(pending)
    if names == "all but one" and kept:
        del kept[generator.integers(len(kept))]
    if names.startswith("some"):
        kept = [operation for operation in kept if generator.random() < 0.5]
    if names == "some in any order":
        # The same name keeps its order: a file system does not make what it removed.
        order = generator.permutation(len(kept))
        kept = [kept[place] for place in order] if len({name for name, _, _ in kept}) == len(kept) else kept
    return kept


def torn(file, data, generator):
    """What is there of a file: all that was synced, and of the rest what the disk had time for."""
    if data == "mixed":
        data = generator.choice(["lost", "zeros", "half", "all"])
    rest = file.content[len(file.synced) :]
    if data == "lost":
        rest = b""
    elif data == "zeros":
        rest = bytes(len(rest))
    elif data == "half":
        rest = rest[: len(rest) // 2]
    return file.synced + rest


def write_tree(tree, root):
    """Put a tree on a real disk."""
    root.mkdir()
    for path, content in sorted(tree.items()):
        if content is None:
            (root / path).mkdir()
        else:
            (root / path).write_bytes(content)
