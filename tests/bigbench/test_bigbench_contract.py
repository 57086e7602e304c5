# SPDX-License-Identifier: Apache-2.0
"""The contract of every task, kept by BIG-bench's kinds of tasks."""

import pytest
from bigbench_data import choice_data, task_data
from test_program_task import DRAWING, load, write_program

from lmeval.api.options import TaskOptions
from lmeval.bigbench.loading import LoadSettings, load_task_dict
from lmeval.testing import TaskTestMixin

SETTINGS = LoadSettings(options=TaskOptions(shots=(0, 1)))


class TestTextTask(TaskTestMixin):
    def make_task(self):
        return load_task_dict(task_data(), SETTINGS)


class TestChoiceTask(TaskTestMixin):
    def make_task(self):
        return load_task_dict(choice_data(), SETTINGS)


class TestContainer(TaskTestMixin):
    def make_task(self):
        subtasks = [task_data(name="text"), choice_data(name="choices")]
        return load_task_dict(task_data(examples=None, subtasks=subtasks), SETTINGS)


class TestProgram(TaskTestMixin):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        body = DRAWING.replace("self.made", "0.5").replace("0.5 = random.random()", "pass")
        self.folder = write_program(tmp_path / "sums", body)

    def make_task(self):
        return load(self.folder)
