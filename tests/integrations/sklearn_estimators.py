"""The estimators that scikit-learn's checks are run on, and the checks."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

from pcpq.integrations.sklearn import PCPQNeighborsTransformer, QuantizerTransformer
from pcpq.quantizers import METHODS

QUANTIZERS = [method() for method in METHODS.values()]


# With probes given even few samples are searched for in an index.
ESTIMATORS = [
    QuantizerTransformer(),
    *(QuantizerTransformer(quantizer) for quantizer in QUANTIZERS),
    *(QuantizerTransformer(quantizer, output="codes") for quantizer in QUANTIZERS),
    PCPQNeighborsTransformer(),
    PCPQNeighborsTransformer(mode="connectivity"),
    PCPQNeighborsTransformer(probes=1, n_lists=4),
]


# Checks that scikit-learn has for its own transformers and does not run for those of others.
MORE_CHECKS = [
    "check_dataframe_column_names_consistency",
    "check_global_output_transform_pandas",
    "check_n_features_in_after_fitting",
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
]


def pairs_to_check():
    """Yield estimators with checks. Graphs are sparse, so checks of data frames are left out for them."""
    for estimator in ESTIMATORS:
        for name in MORE_CHECKS:
            if not (isinstance(estimator, PCPQNeighborsTransformer) and "output_transform_pandas" in name):
                yield pytest.param(estimator, name, id=f"{estimator}-{name}")


def checks_of_other_arrays():
    """Yield estimators with the check that scikit-learn skips unless SCIPY_ARRAY_API is set."""
    for estimator in ESTIMATORS:
        for tested, check in estimator_checks_generator(estimator):
            if "array_api" in check.func.__name__:
                yield tested, check
