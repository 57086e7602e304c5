# SPDX-License-Identifier: Apache-2.0
"""`bigbench.api.model`."""

import attrs

from lmeval.api import model as _model

Model = _model.Model


@attrs.frozen
class ModelData(_model.ModelData):
    """lmeval's ModelData with the one further field that BIG-bench's has."""

    additional_details: str | None = ""
    """Whatever else there is to say of the model."""
