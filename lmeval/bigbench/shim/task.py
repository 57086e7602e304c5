# SPDX-License-Identifier: Apache-2.0
"""`bigbench.api.task`."""

from lmeval.api.task import ScoreData as ScoreData
from lmeval.api.task import Task as Task
from lmeval.api.task import TaskMetadata as TaskMetadata
