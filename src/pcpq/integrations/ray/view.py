"""One generation of an index on many shards, with the same results as a snapshot."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.integrations.ray.answers import reranked_best
from pcpq.integrations.ray.replicas import Question, Replicas, ShardLostError
from pcpq.integrations.ray.shard import Description, Filter, ShardRequest
from pcpq.integrations.ray.wire import MOST_BYTES, as_pieces, pieces_for
from pcpq.io.arrays import Float32Array, Ids
from pcpq.search.recall_curve import RecallCurve
from pcpq.search.request import SearchRequest
from pcpq.search.searchable import PlanCache, ScanTrace, SearchPlan
from pcpq.search.top_k import best_of
from pcpq.segment.segment import Allowed, Scores
from pcpq.segment.trained import Trained
from pcpq.util.batches import slices

# A batch is divided among replicas if each gets at least this number of queries.
QUERIES_PER_REPLICA = 64
# Largest numbers of queries per call; smaller if all shards return candidates that must be merged.
QUERIES_PER_CALL, MERGED_PER_CALL = 8192, 1024
# Estimated bytes of a reply per result, code and candidate, and the estimated candidates per result.
BYTES_PER_ANSWER, BYTES_PER_CODE, BYTES_PER_CANDIDATE, MOST_CANDIDATES = 16, 4, 20, 4


@dataclass(frozen=True)
class Patience:
    """Timeouts in seconds: for all replicas of a shard together, and for one call."""

    all: float = 30.0
    one: float = 60.0


class Directory:
    """The shards of one directory."""

    def __init__(self, path: str, shards: Sequence[Replicas]) -> None:
        self.path, self.shards = path, list(shards)


class View:
    """The state that searches use: one generation of every directory, on all replicas."""

    def __init__(
        self, directories: Sequence[Directory], descriptions: Sequence[Description], patience: Patience
    ) -> None:
        first = descriptions[0]
        for directory, other in zip(directories, descriptions, strict=True):
            one, same = first.manifest.trained, other.manifest.trained
            if (one.bytes, one.check) != (same.bytes, same.check):
                raise ValueError(f"{directory.path} was not trained together with {directories[0].path}")
        self.directories, self.descriptions, self.patience = directories, descriptions, patience
        self.trained = first.trained
        self.recall: RecallCurve | None = first.recall
        self.plan_cache = PlanCache()
        self.counts = [count for one in descriptions for count in one.counts]
        kinds = {one.manifest.kind for one in descriptions} - {None}
        self.kind = next(iter(kinds), None)
        self.missing: threading.local = threading.local()
        self._users, self._lock = 0, threading.Lock()
        self._after: Callable[[], None] | None = None

    def __len__(self) -> int:
        return sum(self.counts)

    @property
    def keys(self) -> tuple[Any, ...]:
        """Keys of the generations, one per directory."""
        return tuple(one.key for one in self.descriptions)

    @contextmanager
    def used(self) -> Iterator[View]:
        """Keep the generation loaded in the shards until the block ends."""
        with self._lock:
            self._users += 1
        try:
            yield self
        finally:
            with self._lock:
                self._users -= 1
                after = self._after if self._users == 0 else None
            if after is not None:
                after()

    def retire(self, after: Callable[[], None]) -> None:
        """Call `after` as soon as no search uses this view."""
        with self._lock:
            self._after = after
            now = self._users == 0
        if now:
            after()

    def question(
        self, directory_number: int, shard: int, method: str, *arguments: Any, pieces: int = 1, work: int = 1
    ) -> Question:
        """Start a call of a method of a shard, for this generation."""
        one, replicas = self.descriptions[directory_number], self.directories[directory_number].shards[shard]
        manifest, bounds = one.manifest, one.bounds

        def ask(actor: Any) -> Any:
            return getattr(actor, method).options(num_returns=pieces).remote(one.key, *arguments)

        return Question(replicas, ask, lambda actor: actor.load.remote(manifest, bounds), work)

    def answer(self, question: Question) -> Any:
        """Return the result of a call, from any of the replicas."""
        return question.answer(self.patience.all, self.patience.one)

    def ask_one(self, directory_number: int, method: str, *arguments: Any) -> Any:
        """Return the result of a method that is the same on all shards of a directory; the first responds."""
        shards = range(len(self.directories[directory_number].shards))
        for number in shards:
            try:
                return self.answer(self.question(directory_number, number, method, *arguments))
            except ShardLostError:
                if number == shards[-1]:
                    raise
        raise AssertionError("a directory without shards")

    def fan(self, ask: Callable[[int, int], Question], partial: bool) -> list[list[Any]]:
        """Return the results of all shards of every directory; with `partial`, None for a lost shard."""
        questions = [
            [ask(directory_number, shard) for shard in range(len(directory.shards))]
            for directory_number, directory in enumerate(self.directories)
        ]
        found: list[list[Any]] = []
        for some in questions:
            answers: list[Any] = []
            for question in some:
                if partial and question.replicas.name in self.lost:  # this search has waited for it before
                    answers.append(None)
                    continue
                try:
                    answers.append(self.answer(question))
                except ShardLostError:
                    if not partial:
                        raise
                    self.lost.add(question.replicas.name)
                    answers.append(None)
            found.append(answers)
        return found

    @property
    def lost(self) -> set[str]:
        """Shards that did not respond to the search of this thread."""
        if not hasattr(self.missing, "names"):
            self.missing.names = set()
        names: set[str] = self.missing.names
        return names

    def allowed(self, wanted: Filter | None, partial: bool) -> tuple[Allowed, ...]:
        """Return the number of rows that a filter allows, for every part."""
        if wanted is None:
            return tuple(Allowed(count) for count in self.counts)
        counts: list[int] = []
        shards = self.fan(lambda d, s: self.question(d, s, "allowed", wanted), partial)
        for directory_number, answers in enumerate(shards):
            total = np.zeros(len(self.descriptions[directory_number].counts), np.int64)
            for some in answers:
                total += 0 if some is None else np.array(some, np.int64)
            counts += total.tolist()
        return tuple(Allowed(count) for count in counts)

    def filtered(self, wanted: Filter | None, partial: bool) -> ShardedSearch:
        """Return this generation as a Searchable with a filter."""
        return ShardedSearch(self, wanted, partial)

    def measure(self) -> None:
        """Measure recall, and drop plans that were made without it."""
        seed = self.descriptions[0].manifest.config.seed
        self.recall = self.ask_one(0, "measure", None, None, seed)
        self.plan_cache = PlanCache()

    def strings(self, numbers: Ids) -> NDArray[Any]:
        """Return the ids of a search in the user's form: integers, or their string ids."""
        if self.kind != "str":
            return numbers
        found: NDArray[Any] = np.full(numbers.shape, None, object)
        for directory_number in range(len(self.directories)):
            strings = self.ask_one(directory_number, "strings", numbers)
            known = strings != None  # noqa: E711  (elementwise)
            found[known] = strings[known]
        return found


class ShardedSearch:
    """A Searchable on many shards: one generation with a filter."""

    def __init__(self, view: View, wanted: Filter | None, partial: bool) -> None:
        self.view, self.wanted, self.partial = view, wanted, partial

    @property
    def trained(self) -> Trained:
        """The trained centroids and codebooks."""
        return self.view.trained

    @property
    def recall(self) -> RecallCurve | None:
        """The recall curve; None if recall was not measured."""
        return self.view.recall

    @property
    def plan_cache(self) -> PlanCache:
        """Cache of search plans."""
        return self.view.plan_cache

    def __len__(self) -> int:
        return len(self.view)

    def allowed_rows(self, request: SearchRequest) -> tuple[Allowed, ...]:
        """Return the number of rows that the filter allows, for every part, counted by the shards."""
        return self.view.allowed(self.wanted, self.partial)

    def scan(
        self, queries: Float32Array, plan: SearchPlan, trace: ScanTrace | None = None
    ) -> tuple[Scores, Ids]:
        """Return (n, k) scores and ids, the same as those of a search of the whole index."""
        view, allowed = self.view, plan.allowed
        many = max(len(replicas.actors) for one in view.directories for replicas in one.shards)
        groups = max(1, min(many, len(queries) // QUERIES_PER_REPLICA))
        merged = not plan.exact and any(len(one.shards) > 1 for one in view.directories)
        reranks_of = self._reranks(plan.rerank, allowed)
        back = [bytes_back(one, plan, reranks) for one, reranks in reranks_of]
        step = min(-(-len(queries) // groups), MERGED_PER_CALL if merged else QUERIES_PER_CALL)
        step = max(1, min(step, MOST_BYTES // max(queries[:1].nbytes, *back)))
        some = [queries[part] for part in slices(len(queries), step)]
        calls = [self._ask(part, plan, reranks_of) for part in some]
        found = [
            self._collect(len(part), questions, plan, reranks_of)
            for part, questions in zip(some, calls, strict=True)
        ]
        return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])

    def _ask(
        self, queries: Float32Array, plan: SearchPlan, reranks_of: Sequence[tuple[Directory, list[int]]]
    ) -> list[list[Question]]:
        """Start calls to all shards at once."""
        view, questions = self.view, []
        for directory_number, (directory, reranks) in enumerate(reranks_of):
            method = "answers" if alone(directory, plan) else "candidates"
            pieces = pieces_for(len(queries) * bytes_back(directory, plan, reranks))
            request = ShardRequest(
                k=plan.k,
                probing=plan.probing,
                reranks=reranks,
                wanted=self.wanted,
                pieces=pieces,
                exact=plan.exact,
            )
            arguments, sizes = (request, *as_pieces(queries)), {"pieces": pieces, "work": len(queries)}
            questions.append(
                [
                    view.question(directory_number, shard, method, *arguments, **sizes)
                    for shard in range(len(directory.shards))
                ]
            )
        return questions

    def _reranks(self, rerank: int, allowed: Sequence[Allowed]) -> list[tuple[Directory, list[int]]]:
        """Return the number of candidates to rerank for every part, by directory."""
        found, first = [], 0
        for directory, described in zip(self.view.directories, self.view.descriptions, strict=True):
            last = first + len(described.counts)
            found.append((directory, [min(rerank, some.count) for some in allowed[first:last]]))
            first = last
        return found

    def _collect(
        self,
        n: int,
        questions: list[list[Question]],
        plan: SearchPlan,
        reranks_of: Sequence[tuple[Directory, list[int]]],
    ) -> tuple[Scores, Ids]:
        """Merge the results of all shards into (n, k) scores and ids."""
        found, k = [], plan.k
        answers = self.view.fan(lambda d, s: questions[d][s], self.partial)
        for (directory, reranks), some in zip(reranks_of, answers, strict=True):
            received = [one for one in some if one is not None]
            if alone(directory, plan):
                found += received
                continue
            for part, rerank in enumerate(reranks):
                if rerank:
                    found.append(reranked_best([one[part] for one in received], min(k, rerank), rerank))
        return best_of(found, n, k)


def alone(directory: Directory, plan: SearchPlan) -> bool:
    """Return whether a shard can find its best rows without knowing the candidates of others."""
    return plan.exact or len(directory.shards) == 1


def bytes_back(directory: Directory, plan: SearchPlan, reranks: Sequence[int]) -> int:
    """Return the estimated number of bytes that a shard returns per query."""
    k = plan.k
    if alone(directory, plan):
        return BYTES_PER_ANSWER * k
    return sum(BYTES_PER_CODE * one + BYTES_PER_CANDIDATE * min(one, MOST_CANDIDATES * k) for one in reranks)
