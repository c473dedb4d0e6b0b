"""Planning of searches: defaults, settings for a target recall, and the rows that filters allow."""

from __future__ import annotations

from typing import NamedTuple

from pcpq.errors import RecallWarning
from pcpq.ivf.probing import Probing
from pcpq.search.recall_curve import FEW, RESULTS, USUAL_TARGET, Choice
from pcpq.search.request import SearchRequest
from pcpq.search.searchable import Searchable, SearchPlan
from pcpq.util.warning import warn_user

# Largest numbers of plans and of choices in the cache of a snapshot.
MOST_PLANS = 1000
DEFAULT_CANDIDATES, CANDIDATES_PER_RESULT = 100, 10


class ChosenSettings(NamedTuple):
    """Settings for a target recall."""

    probes: int
    rerank: int | None
    expected: float | None  # recall by the measurement with vectors of the index; None: unknown


def plan_search(searched: Searchable, request: SearchRequest) -> SearchPlan:
    """Return the plan of a request; one without filters is made once for all searches of a snapshot."""
    if request.filtered or request.exact is not False:
        return make_plan(searched, request)
    plan = known_plan(searched, *request.settings)
    if plan is None:
        plan = make_plan(searched, request)
        if len(searched.plan_cache.plans) < MOST_PLANS:
            searched.plan_cache.plans[request.settings] = plan
    return plan


def known_plan(
    searched: Searchable,
    k: int,
    target: float | None,
    probes: int | None,
    rerank: int | None,
    threads: int | None,
) -> SearchPlan | None:
    """Return the plan that was made before for these settings, without filters.

    None if there is none, or for other types: 1, 1.0 and True are equal keys, but not equal settings.
    """
    if (
        type(k) is int
        and (target is None or type(target) is float)
        and (probes is None or type(probes) is int)
        and (rerank is None or type(rerank) is int)
        and (threads is None or type(threads) is int)
    ):
        return searched.plan_cache.plans.get((k, target, probes, rerank, threads))
    return None


def plan_range(searched: Searchable, request: SearchRequest) -> SearchPlan:
    """Return the plan of a search by range; lists are probed as for many results, as any number may match."""
    if request.probes is None and len(searched) > FEW:
        request = request._replace(probes=settings_for(searched, RESULTS[-1], None, None, 1.0).probes)
    return plan_search(searched, request)


def make_plan(searched: Searchable, request: SearchRequest) -> SearchPlan:
    """Return the plan of a request after checking it; if few rows are allowed, all of them are reranked."""
    request.check()
    k, probes, rerank, expected = int(request.k), request.probes, request.rerank, None
    allowed = searched.allowed_rows(request)
    n = len(searched)
    n_allowed = sum(some.count for some in allowed) if request.filtered else n
    if request.exact and searched.trained.keep is None:
        raise ValueError("exact=True compares kept vectors, but this index was built with keep=None")
    if request.exact or (n <= FEW and probes is None) or (request.filtered and n_allowed <= FEW):
        probes = len(searched.trained.partition)
        rerank = n_allowed if rerank is None else rerank
    elif probes is None:
        probes, rerank, expected = settings_for(
            searched, k, rerank, request.target_recall, n_allowed / max(n, 1)
        )
    wanted = max(DEFAULT_CANDIDATES, CANDIDATES_PER_RESULT * k) if rerank is None else int(rerank)
    sample, curve = None, searched.recall
    if expected is not None and curve is not None and not request.filtered:
        sample = curve.check.sample(k, int(probes), wanted, expected)
    return SearchPlan(
        k=k,
        probing=probing_for(searched, int(probes)),
        rerank=min(max(wanted, k), n_allowed),
        allowed=allowed,
        n_allowed=n_allowed,
        threads=request.threads,
        sample=sample,
        exact=bool(request.exact),
    )


def probing_for(searched: Searchable, probes: int) -> Probing:
    """Return how queries choose their lists, if they are to probe a number of lists on average."""
    curve = searched.recall
    return Probing.exactly(probes) if curve is None else curve.probing(probes)


def settings_for(
    searched: Searchable, k: int, rerank: int | None, target: float | None, share: float
) -> ChosenSettings:
    """Return probes and candidates for a target recall; a twentieth of the lists if recall was not measured."""
    curve, choices = searched.recall, searched.plan_cache.choices
    if curve is None:
        return ChosenSettings(max(1, len(searched.trained.partition) // 20), rerank, None)
    key = (k, rerank, target, round(share, 3))
    aim = USUAL_TARGET if target is None else target
    choice = choices.get(key)
    if choice is None:
        choice = curve.choose(k, aim, share=share, rerank=rerank, strict=target is not None)
        if len(choices) < MOST_PLANS:
            choices[key] = choice
        if target is not None and target > curve.reach(k, share=share, rerank=rerank):
            warn_out_of_reach(searched, k, target, choice)
    # Queries that a user gave are those to expect: there is nothing to check.
    expected = min(aim, choice.recall) if curve.kind == "held out" else None
    return ChosenSettings(choice.probes, choice.rerank, expected)


def warn_out_of_reach(searched: Searchable, k: int, target: float, choice: Choice) -> None:
    """Warn that no settings reach a target recall."""
    keep = searched.trained.keep
    compared = "codes alone" if keep is None else f"vectors kept as {keep}"
    reached = f"about {choice.recall:.3f} is reached"
    warn_user(f"a recall of {target} at k={k} is out of reach with {compared}; {reached}", RecallWarning)
