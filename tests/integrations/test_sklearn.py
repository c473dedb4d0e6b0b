"""scikit-learn's contract, and what is imported when."""

import os
import subprocess
import sys

import pytest
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import check_estimator, parametrize_with_checks
from sklearn_estimators import ESTIMATORS, checks_of_other_arrays, pairs_to_check

from pcpq.integrations.sklearn import PCPQNeighborsTransformer


def in_another_python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, check=False
    )


# The contract


@parametrize_with_checks(ESTIMATORS)
def test_estimators_keep_scikit_learns_contract(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:X (does not have|has).*feature names")  # the checks do so on purpose
@pytest.mark.parametrize(("estimator", "name"), [*pairs_to_check()])
def test_estimators_pass_what_scikit_learns_own_must(estimator, name):
    if "pandas" in name or "dataframe" in name:
        pytest.importorskip("pandas")
    getattr(estimator_checks, name)("estimator", estimator)


def test_no_check_is_left_out_for_want_of_a_setting():
    code = (
        f"import sys; sys.path.insert(0, {os.path.dirname(__file__)!r})\n"
        "from sklearn_estimators import checks_of_other_arrays\n"
        "for estimator, check in checks_of_other_arrays():\n"
        "    check(estimator)\n"
        "    print(estimator)\n"
    )
    done = in_another_python(code, SCIPY_ARRAY_API="1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [str(estimator) for estimator, _ in checks_of_other_arrays()]


def test_under_cosine_only_a_zero_row_is_refused():
    results = check_estimator(PCPQNeighborsTransformer(metric="cosine"), on_skip=None, on_fail=None)
    failed = [result for result in results if result["status"] == "failed"]
    assert [result["check_name"] for result in failed] == ["check_estimators_dtypes"]
    assert "is zero; it has no direction, which cosine needs" in str(failed[0]["exception"])


# The extra


@pytest.mark.parametrize(
    "lacking",
    ["import sys; sys.modules['sklearn'] = None", "import sklearn.utils.validation as v; del v.validate_data"],
    ids=["none", "old"],
)
def test_without_scikit_learn_or_with_an_old_one_the_import_says_what_to_install(lacking):
    done = in_another_python(f"{lacking}; import pcpq; import pcpq.integrations.sklearn")
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    needs = "pcpq.integrations.sklearn needs scikit-learn 1.6 or newer: pip install pcpq[sklearn]"
    assert last == f"ImportError: {needs}"


def test_pcpq_itself_does_not_import_scikit_learn():
    done = in_another_python(
        "import sys, pcpq, pcpq.integrations; print({'sklearn', 'scipy'} & {*sys.modules})"
    )
    assert done.stdout == "set()\n", done.stderr
