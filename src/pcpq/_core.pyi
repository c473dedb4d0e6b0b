"""Stateless kernels over caller-owned, C-contiguous arrays."""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


def simd_level() -> str:
    """The SIMD level in use."""

def simd_levels() -> list[str]:
    """The levels this processor and build have, best first."""

def set_simd_level(name: str) -> None:
    """Use a level; 'auto' is the best one."""

def release_memory() -> None:
    """Give freed memory back to the system, where the allocator can do so."""

class RoundedLists:
    """Centroids as 8-bit integers, by which rows find the nearest."""

    def __init__(self, *, centroids: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], centre: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], coarse: Annotated[NDArray[numpy.int8], dict(shape=(None, None, None, None), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.uint16], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], units: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], penalties: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], crowding: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], longest: float, longest_row: float) -> None: ...

def nearest_lists(lists: RoundedLists, *, rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], near: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, stops: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, out_lists: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], out_distances: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    The nearest list of every row, of all or of those near to a group of rows, and the squared distance.
    """

def two_lists(lists: RoundedLists, *, rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], weight: float, out_first: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')], out_second: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    The nearest list of every row, and a second one: near, but in another direction.
    """

def lists_around(lists: RoundedLists, *, rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out_lists: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """The nearest lists of every row, ascending."""

def add_to_lists(*, rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], lists: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], out_sums: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """
    Adds rows to the sums of their lists; those of a negative list are left out.
    """

def encode(*, points: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, directions: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, ratios: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, loss: str, scale: str, by_distance: bool, sweeps: int, out_codes: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu')], out_scales: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')] | None, out_alphas: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')] | None) -> None:
    """The code of least loss for every point."""

def seed(*, points: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], uniforms: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], sign_symmetric: bool, out_rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Rows picked by k-means++."""

def codeword_sums(*, points: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], assigned: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], ratios: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, alphas: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out_matrix: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')] | None, out_mass: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], out_vector: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Adds the normal equations of every codeword to the outputs."""

def codeword_grams(*, points: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], assigned: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out_matrix: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """Adds the sum of r r^T of every codeword to out_matrix."""

def point_losses(*, points: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], assigned: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], ratios: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, alphas: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out_losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """The weighted loss of every point with its codeword."""

def best_alphas(*, points: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], assigned: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], ratios: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out_alphas: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], out_curvatures: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    The best alpha of every point with its codeword, and the curvature of its loss there.
    """

def section_ratios(*, points: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], thresholds: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], table: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], out_ratios: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """Orthogonal over parallel weight of every section of every point."""

def quantize_scalars(*, values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], out_levels: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """Exact weighted 1-D k-means of ascending values."""

class OperationCounts:
    """Operations on floats, counted while scores were computed."""

    @property
    def multiply_adds(self) -> int: ...

    @property
    def multiplications(self) -> int: ...

    @property
    def look_ups(self) -> int: ...

    @property
    def additions(self) -> int: ...

@overload
def score(*, queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], scale_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, alphas: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, out_scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def score(*, queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu', writable=False)], scale_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, alphas: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, out_scores: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def count_score_operations(*, queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], scale_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, alphas: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None) -> OperationCounts: ...

@overload
def count_score_operations(*, queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu', writable=False)], scale_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, alphas: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None) -> OperationCounts: ...

@overload
def decode(*, codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], scale_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, alphas: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, out_points: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def decode(*, codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, codes: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu', writable=False)], scale_codes: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, alphas: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, out_points: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

class FormatError(ValueError):
    pass

def crc32c(bytes: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], *, before: int = 0, by_tables: bool = False) -> int:
    """CRC-32C of bytes that follow others, whose own is `before`."""

class Guard:
    """Arrays of a segment with their checksums; every part is verified once."""

    def __init__(self, *, file: str, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], by_block: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)]], by_row: Sequence[Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)]], kept: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows_per_block: int, rows_per_page: int, list_checks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], page_checks: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def check_rows(self, rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Raise FormatError unless rows and their lists are as they were written.
        """

    def check_all(self) -> None:
        """Raise FormatError unless everything is as it was written."""

    def compute(self, *, out_lists: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], out_pages: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')]) -> None:
        """Write the checksums of lists and of pages of kept vectors."""

SMALLEST_LENGTH: float = 1e-09

LARGEST_LENGTH: float = 1000000000.0

def length_range(rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], *, out_units: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')] | None = None) -> tuple[float, float]:
    """
    Return the least and the greatest length of rows, NaN if one is NaN; write rows scaled to length 1 to out_units, zeros unchanged.
    """

def permute_rows(*, rows: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')], order: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> bool:
    """
    Row i becomes what row order[i] was, in place. False, and nothing is done, if order is no permutation.
    """

def mask_rows(*, chosen: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], order: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], out_mask: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')]) -> bool:
    """
    Write a bit per row that is chosen, at its place in blocks of 32; False if a row or place is out of range.
    """

def project(*, rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], matrix: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out_rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
    """
    Rows times a matrix: the bits of a row do not depend on the others, nor on the processor.
    """

def prepare_queries(*, queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], query_unit: float, unit_length: bool, out_queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> bool:
    """
    Queries as searches have them; False if a length is not between SMALLEST_LENGTH and LARGEST_LENGTH.
    """

def return_scores(*, scores: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu', writable=False)], euclidean: bool, row_unit: float, query_unit: float, unit_length: bool, out_scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """
    Scores of searches in the user's units: squared distances if euclidean, from -1 to 1 if unit_length.
    """

def sum_recalls(*, scanned: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], lists: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], ranks: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], parts: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], results: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], probes: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], reranks: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out_hits: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], out_squares: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """
    Recall and its square, added up over queries, for numbers of results, lists and candidates.
    """

def block_rows(coding: str) -> int:
    """Rows of a block of codes."""

def block_bytes(*, coding: str, sections: int) -> int:
    """Bytes of a block of plain or scaled codes."""

class Lists:
    """The inverted lists of a segment: centroids, ranks, where rows begin."""

    def __init__(self, *, coarse: Annotated[NDArray[numpy.int8], dict(shape=(None, None, None, None), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.uint16], dict(shape=(None, None, None), order='C', device='cpu', writable=False)], unit: float, longest_query: float, centroids: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, mean: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], spreads: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], largest_base: float, largest_offset: float, shapes: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Codes:
    """The codes of a segment's rows, and the codebooks they refer to."""

    def __init__(self, *, coding: str, blocks: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], codewords: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None, None), order='C', device='cpu', writable=False)], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu', writable=False)] | None, steps: Annotated[NDArray[numpy.int8], dict(shape=(None, None, None), order='C', device='cpu', writable=False)] | None = None, step_units: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, largest_step: float = 0.0, reach: float, bias_low: float, bias_step: float, bias_by_length: bool, unpacked_scales: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, unpacked_alphas: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None = None, unpacked_factors: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, unpacked_biases: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> None: ...

class Kept:
    """
    The vectors that candidates are reranked by, or corrections of codes; ids.
    """

    def __init__(self, *, keep: str, rows: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], units: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, euclidean: bool, gains: Annotated[NDArray[numpy.uint16], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, biases: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Projection:
    """From the coordinates of vectors to those of lists and codes."""

    def __init__(self, *, matrix: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, mean: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

class Rotation:
    """From a vector's coordinates to those of its sections."""

    def __init__(self, *, matrix: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, columns: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)] | None) -> None: ...

class SecondCodes:
    """The codes of a segment's rows in their second lists."""

    def __init__(self, *, blocks: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], guard: object | None = None) -> None: ...

class Searcher:
    """The arrays of a segment, checked once, searched any number of times."""

    def __init__(self, *, lists: Lists, codes: Codes, kept: Kept, projection: Projection, rotation: Rotation, second: SecondCodes | None = None, row_unit: float, query_unit: float, unit_length: bool, guard: object | None = None) -> None: ...

    def search(self, *, queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], probes: int, rerank: int, out_ids: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], out_scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], allowed: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, second_allowed: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, share: float = 1.0, temperature: float = 0.0, margin: float = float('-inf'), out_counts: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')] | None = None, out_seconds: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None = None, out_scanned: Annotated[NDArray[numpy.int32], dict(shape=(None, None), order='C', device='cpu')] | None = None) -> None:
        """
        The k best rows for every query, in the `probes` lists of highest rank, or those of them whose weight is at least e^margin.
        """

    @property
    def estimate_columns(self) -> int:
        """
        Columns of read_rows and read_queries: the dimensions, one more if euclidean.
        """

    def read_rows(self, *, rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], out_rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> float:
        """Kept rows as float32 for estimates; returns their largest length."""

    def read_queries(self, *, queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], out_queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None:
        """Queries for estimates: products with rows of read_rows."""

    def search_exactly(self, *, queries: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], estimates: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)] | None, longest: float, out_ids: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu')], out_scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None:
        """
        Add rows to the k best of every query; with estimates, only rows that can be among them are scored.
        """

class Segments:
    """Segments with the same lists, and the rows that may be found in each."""

    def __init__(self) -> None: ...

    def add(self, *, searcher: object, allowed: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, second_allowed: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, share: float, count: int) -> None:
        """
        Add a segment of which `count` rows may be found; their mask, None for all.
        """

    def search_one(self, query: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], probes: int, temperature: float, margin: float, rerank: int, out_ids: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], out_scores: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> bool:
        """
        The k best rows for a single query as it was given; False where fewer are found or its length is unusual.
        """
