"""Files of vectors in every format, written by other means than pcpq's own."""

import json
import struct

import h5py
import numpy as np
import pyarrow
import pyarrow.parquet


def list_array(vectors, kind=None):
    return pyarrow.array(vectors.tolist(), pyarrow.list_(kind or pyarrow.float32()))


def fixed_array(vectors):
    return pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.reshape(-1)), vectors.shape[1])


def vecs(vectors, dtype):
    lengths = np.full((len(vectors), 1), vectors.shape[1], "<i4").view(np.uint8)
    return np.hstack([lengths, np.ascontiguousarray(vectors, dtype).view(np.uint8)]).tobytes()


def bins(vectors, dtype):
    return struct.pack("<II", *vectors.shape) + vectors.astype(dtype).tobytes()


def lines(vectors, **fields):
    names = [dict(zip(fields, values, strict=True)) for values in zip(*fields.values(), strict=True)]
    rows = [
        {**name, "vector": row}
        for name, row in zip(names or [{}] * len(vectors), vectors.tolist(), strict=True)
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def words(vectors, header=False):
    first = f"{len(vectors)} {vectors.shape[1]}\n" if header else ""
    rows = (f"word{i} {' '.join(map(str, row))}\n" for i, row in enumerate(vectors.tolist()))
    return first + "".join(rows)


def outcome(call):
    """What a call returns, or the ValueError it raises; all else is a failure."""
    try:
        return call()
    except ValueError as error:
        return error


def store_hdf5(path, vectors, distance="angular", **options):
    with h5py.File(path, "w") as file:
        file.create_dataset("train", data=vectors, **options)
        file.create_dataset("test", data=vectors[:10])
        file.attrs["distance"] = distance


def store_arrow(path, table, stream=False):
    with (pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file)(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)


def store(path, vectors, name):
    """A file of vectors by another way than pcpq's own."""
    table = pyarrow.table({"embedding": list_array(vectors), "number": np.arange(len(vectors))})
    if name == "npy":
        np.save(path, vectors)
    elif name == "npz":
        np.savez_compressed(path, vectors=vectors, number=np.arange(len(vectors)))
    elif name in ("fvecs", "bvecs", "ivecs"):
        path.write_bytes(vecs(vectors, {"f": "<f4", "b": "u1", "i": "<i4"}[name[0]]))
    elif name in ("fbin", "u8bin", "i8bin"):
        path.write_bytes(bins(vectors, {"f": "<f4", "u": "u1", "i": "i1"}[name[0]]))
    elif name == "hdf5":
        store_hdf5(path, vectors)
    elif name == "parquet":
        pyarrow.parquet.write_table(table, path, row_group_size=90)
    elif name == "arrow":
        store_arrow(path, table)
    elif name == "jsonl":
        path.write_text(lines(vectors))
    else:
        path.write_text(words(vectors))
