"""One generation of an index on many shards, searched as a snapshot is, with the same results."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pcpq.integrations.ray.answers import judged_best
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

# Queries of a batch that are worth another replica's time.
QUERIES_A_REPLICA = 64
# At most so many go at once: where shards are merged, candidates of all of them come back.
QUERIES_A_CALL, MERGED_A_CALL = 8192, 1024
# What comes back, about: of so many candidates for every answer, more than codes.
BYTES_AN_ANSWER, BYTES_A_CODE, BYTES_A_CANDIDATE, MOST_TOLD = 16, 4, 20, 4


@dataclass(frozen=True)
class Patience:
    """Seconds: for which replicas of a shard are asked, and for which one of them may think."""

    all: float = 30.0
    one: float = 60.0


class Directory:
    """The shards of one directory."""

    def __init__(self, path: str, shards: Sequence[Replicas]) -> None:
        self.path, self.shards = path, list(shards)


class View:
    """What searches see: the same generation of every directory, whoever is asked."""

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
        """What tells it from other generations."""
        return tuple(one.key for one in self.descriptions)

    @contextmanager
    def used(self) -> Iterator[View]:
        """While somebody searches, shards hold it."""
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
        """Do something when nobody searches it any more."""
        with self._lock:
            self._after = after
            now = self._users == 0
        if now:
            after()

    def question(
        self, place: int, shard: int, method: str, *arguments: Any, pieces: int = 1, work: int = 1
    ) -> Question:
        """Ask a shard of a directory for something about this generation."""
        one, replicas = self.descriptions[place], self.directories[place].shards[shard]
        manifest, bounds = one.manifest, one.bounds

        def ask(actor: Any) -> Any:
            return getattr(actor, method).options(num_returns=pieces).remote(one.key, *arguments)

        return Question(replicas, ask, lambda actor: actor.load.remote(manifest, bounds), work)

    def answer(self, question: Question) -> Any:
        """Of whoever answers."""
        return question.answer(self.patience.all, self.patience.one)

    def ask_one(self, place: int, method: str, *arguments: Any) -> Any:
        """Anything that every shard of a directory knows: the first that answers."""
        shards = range(len(self.directories[place].shards))
        for number in shards:
            try:
                return self.answer(self.question(place, number, method, *arguments))
            except ShardLostError:
                if number == shards[-1]:
                    raise
        raise AssertionError("a directory without shards")

    def fan(self, ask: Callable[[int, int], Question], partial: bool) -> list[list[Any]]:
        """Answers of all shards of every directory, None where one is lost and that is allowed."""
        questions = [
            [ask(place, shard) for shard in range(len(directory.shards))]
            for place, directory in enumerate(self.directories)
        ]
        found: list[list[Any]] = []
        for some in questions:
            answers: list[Any] = []
            for question in some:
                if partial and question.replicas.name in self.lost:  # waited for once in this search
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
        """Shards that did not answer this thread's search."""
        if not hasattr(self.missing, "names"):
            self.missing.names = set()
        names: set[str] = self.missing.names
        return names

    def allowed(self, wanted: Filter | None, partial: bool) -> tuple[Allowed, ...]:
        """How many rows of every part may be found."""
        if wanted is None:
            return tuple(Allowed(count) for count in self.counts)
        counts: list[int] = []
        for place, answers in enumerate(self.fan(lambda i, s: self.question(i, s, "allowed", wanted), partial)):
            total = np.zeros(len(self.descriptions[place].counts), np.int64)
            for some in answers:
                total += 0 if some is None else np.array(some, np.int64)
            counts += total.tolist()
        return tuple(Allowed(count) for count in counts)

    def filtered(self, wanted: Filter | None, partial: bool) -> ShardedSearch:
        """The generation under a filter, to be searched."""
        return ShardedSearch(self, wanted, partial)

    def measure(self) -> None:
        """Measure recall; plans that were made without it are forgotten."""
        seed = self.descriptions[0].manifest.config.seed
        self.recall = self.ask_one(0, "measure", None, None, seed)
        self.plan_cache = PlanCache()

    def words(self, numbers: Ids) -> NDArray[Any]:
        """Numbers that a search found, or their words."""
        if self.kind != "str":
            return numbers
        found: NDArray[Any] = np.full(numbers.shape, None, object)
        for place in range(len(self.directories)):
            words = self.ask_one(place, "words", numbers)
            known = words != None  # noqa: E711  (of each)
            found[known] = words[known]
        return found


class ShardedSearch:
    """One generation under a filter: what a Searchable is, on many shards."""

    def __init__(self, view: View, wanted: Filter | None, partial: bool) -> None:
        self.view, self.wanted, self.partial = view, wanted, partial

    @property
    def trained(self) -> Trained:
        """What was trained: lists and codebooks."""
        return self.view.trained

    @property
    def recall(self) -> RecallCurve | None:
        """The measured recall, if it was measured."""
        return self.view.recall

    @property
    def plan_cache(self) -> PlanCache:
        """Plans that were made before."""
        return self.view.plan_cache

    def __len__(self) -> int:
        return len(self.view)

    def allowed_rows(self, request: SearchRequest) -> tuple[Allowed, ...]:
        """How many rows of every part the filter leaves, as the shards count them."""
        return self.view.allowed(self.wanted, self.partial)

    def scan_single(self, query: Any, plan: SearchPlan) -> None:
        """None: a query for shards has no shorter way."""

    def scan(
        self, queries: Float32Array, plan: SearchPlan, trace: ScanTrace | None = None
    ) -> tuple[Scores, Ids]:
        """(n, k) scores and ids: the best of every part, re-ranked as if it were searched as a whole."""
        view, k, allowed = self.view, plan.k, plan.allowed
        many = max(len(replicas.actors) for one in view.directories for replicas in one.shards)
        groups = max(1, min(many, len(queries) // QUERIES_A_REPLICA))
        merged = any(len(one.shards) > 1 for one in view.directories)
        asked_of = self._reranks(plan.rerank, allowed)
        back = [bytes_back(one, k, reranks) for one, reranks in asked_of]
        step = min(-(-len(queries) // groups), MERGED_A_CALL if merged else QUERIES_A_CALL)
        step = max(1, min(step, MOST_BYTES // max(queries[:1].nbytes, *back)))
        some = [queries[part] for part in slices(len(queries), step)]
        asked = [self._ask(part, k, plan.probes, asked_of) for part in some]
        found = [
            self._collect(len(part), questions, k, asked_of)
            for part, questions in zip(some, asked, strict=True)
        ]
        return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])

    def _ask(
        self, queries: Float32Array, k: int, probes: int, asked_of: Sequence[tuple[Directory, list[int]]]
    ) -> list[list[Question]]:
        """Questions to all shards, on their way at once."""
        view, questions = self.view, []
        for place, (directory, reranks) in enumerate(asked_of):
            method = "answers" if len(directory.shards) == 1 else "candidates"
            pieces = pieces_for(len(queries) * bytes_back(directory, k, reranks))
            request = ShardRequest(k, probes, reranks, self.wanted, pieces)
            arguments, sizes = (request, *as_pieces(queries)), {"pieces": pieces, "work": len(queries)}
            questions.append(
                [
                    view.question(place, shard, method, *arguments, **sizes)
                    for shard in range(len(directory.shards))
                ]
            )
        return questions

    def _reranks(self, rerank: int, allowed: Sequence[Allowed]) -> list[tuple[Directory, list[int]]]:
        """Candidates of every part, by directory."""
        found, first = [], 0
        for directory, described in zip(self.view.directories, self.view.descriptions, strict=True):
            last = first + len(described.counts)
            found.append((directory, [min(rerank, some.count) for some in allowed[first:last]]))
            first = last
        return found

    def _collect(
        self, n: int, questions: list[list[Question]], k: int, asked_of: Sequence[tuple[Directory, list[int]]]
    ) -> tuple[Scores, Ids]:
        """Answers of all shards to answers; k is at most what is judged."""
        found = []
        answers = self.view.fan(lambda place, shard: questions[place][shard], self.partial)
        for (directory, reranks), some in zip(asked_of, answers, strict=True):
            there = [one for one in some if one is not None]
            if not there:
                continue
            if len(directory.shards) == 1:
                found.append(there[0])
                continue
            for part, rerank in enumerate(reranks):
                if rerank:
                    found.append(judged_best([one[part] for one in there], min(k, rerank), rerank))
        return best_of(found, n, k)


def bytes_back(directory: Directory, k: int, reranks: Sequence[int]) -> int:
    """What a shard returns for a query, about."""
    if len(directory.shards) == 1:
        return BYTES_AN_ANSWER * k
    return sum(BYTES_A_CODE * one + BYTES_A_CANDIDATE * min(one, MOST_TOLD * k) for one in reranks)
