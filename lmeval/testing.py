# SPDX-License-Identifier: Apache-2.0
"""The contracts of tasks and models as tests to inherit.

Subclass a mixin, say how the object under test is made, and run the file with pytest or unittest:

    class MyTaskTest(TaskTestMixin, unittest.TestCase):
        def make_task(self):
            return MyTask()

Under pytest the second base class is not needed, if the name begins with `Test`. Failures are
AssertionErrors whose text says what the contract demands and what was found. Nothing here imports a
test framework.
"""

from __future__ import annotations

import abc
import inspect
import json
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from lmeval.api.errors import UnsupportedByModel
from lmeval.api.model import (
    BatchModel,
    Completion,
    LogProbs,
    Model,
    ModelData,
    postprocess_output,
)
from lmeval.api.task import ExampleScore, ScoreData, Task, TaskMetadata, is_finite_number

_TOLERANCE = 1e-4


def require(condition: object, message: str) -> None:
    """Raise AssertionError with `message` unless `condition` holds."""
    if not condition:
        raise AssertionError(message)


class RuleModel(BatchModel):
    """A model made of a function from prompt to answer; all targets are equally likely to it."""

    deterministic = True

    def __init__(self, name: str, answer: Callable[[str], str]) -> None:
        """Make a model.

        Args:
          name: the name that stands in messages.
          answer: what it writes after a prompt.
        """
        self._name = name
        self._answer = answer

    def model_data(self) -> ModelData:
        """See `Model.model_data`."""
        return ModelData(model_family="rule", model_name=self._name)

    def complete(
        self, prompts: Sequence[str], max_length: int | None, stops: tuple[str, ...]
    ) -> list[str]:
        """See `BatchModel.complete`."""
        return [self._answer(prompt) for prompt in prompts]

    def score(self, contexts: Sequence[str], targets: Sequence[Sequence[str]]) -> list[list[float]]:
        """See `BatchModel.score`; the targets of a context share its probability evenly."""
        return [[-math.log(len(wanted))] * len(wanted) for wanted in targets]

    def rolling_log_prob(self, texts: Sequence[str]) -> list[float]:
        """See `Model.rolling_log_prob`; -1 for every text."""
        return [-1.0] * len(texts)


def mute_model() -> RuleModel:
    """A model that answers every prompt with nothing."""
    return RuleModel("mute", lambda prompt: "")


def echo_model() -> RuleModel:
    """A model that answers every prompt with the prompt."""
    return RuleModel("echo", str)


class FailingModel(RuleModel):
    """A model every request of which fails, reported as the engine reports time limits."""

    def __init__(self) -> None:
        """Make a model that fails."""
        super().__init__("failing", lambda prompt: Completion("", error="timeout"))

    def score(self, contexts: Sequence[str], targets: Sequence[Sequence[str]]) -> list[LogProbs]:  # type: ignore[override]
        """See `BatchModel.score`; no target has any probability."""
        return [LogProbs.failed(len(wanted), "timeout") for wanted in targets]


class TaskTestMixin(abc.ABC):
    """What every task must do, whatever it is about.

    Override `evaluate` where the task needs more than a model (a sandbox, say).
    """

    @abc.abstractmethod
    def make_task(self) -> Task:
        """Make the task under test anew."""
        raise NotImplementedError

    def evaluate(self, task: Task, model: Model) -> ScoreData | list[ScoreData]:
        """Evaluate `model` on `task`, with seed 0 if the task takes a `random_seed`."""
        if "random_seed" in inspect.signature(task.evaluate_model).parameters:
            return task.evaluate_model(model, random_seed=0)  # type: ignore[call-arg]
        return task.evaluate_model(model)

    def _scores(self, model: Model) -> list[ScoreData]:
        scores = self.evaluate(self.make_task(), model)
        return [scores] if isinstance(scores, ScoreData) else scores

    def test_task_details_are_complete(self) -> None:
        """The metadata has all fields, filled and of the right types."""
        details = self.make_task().get_task_details()
        require(isinstance(details, TaskMetadata), f"get_task_details gave {details!r}.")
        require(details.description.strip(), "The task's description is blank.")
        require(details.keywords, "The task has no keywords; see keywords.md.")
        for word in details.keywords:
            require(word == word.strip() != "", f"The keyword {word!r} is blank or not trimmed.")
        require(details.max_input_length_per_query > 0, "max_input_length_per_query must be > 0.")
        require(details.max_queries > 0, "max_queries must be above 0.")

    def test_evaluation_gives_score_data(self) -> None:
        """One ScoreData or a list of them comes back, with low below high."""
        scores = self._scores(mute_model())
        require(isinstance(scores, list) and scores, f"evaluate_model gave {scores!r}.")
        for score in scores:
            require(isinstance(score, ScoreData), f"evaluate_model gave {score!r}.")
            require(
                score.high_score > score.low_score,
                f"high_score {score.high_score} must be above low_score {score.low_score}.",
            )

    def test_subtasks_can_be_told_apart(self) -> None:
        """No two ScoreData share both description and number of shots."""
        scores = self._scores(mute_model())
        marks = [(score.subtask_description, score.number_of_shots) for score in scores]
        require(len(set(marks)) == len(marks), f"Two sub-tasks look the same: {sorted(marks)}.")

    def test_same_seed_gives_same_scores(self) -> None:
        """Two evaluations with one seed ask the same and score the same, apart from time."""
        first, second = (
            [_without_time(score) for score in self._scores(echo_model())] for _ in range(2)
        )
        require(first == second, "Two evaluations with the same seed differ.")

    def test_a_second_evaluation_of_one_object_is_no_different(self) -> None:
        """Evaluating leaves nothing behind in the task."""
        task = self.make_task()
        first, second = (
            [_without_time(score) for score in _as_list(self.evaluate(task, echo_model()))]
            for _ in range(2)
        )
        require(first == second, "A second evaluation of the same task object differs.")

    def test_mute_model_does_not_score_high(self) -> None:
        """Saying nothing is no very good performance."""
        self._require_below_high(mute_model())

    def test_echo_model_does_not_score_high(self) -> None:
        """Repeating the prompt is no very good performance."""
        self._require_below_high(echo_model())

    def test_failed_requests_do_not_score_high(self) -> None:
        """Requests that fail end in no exception and no very good performance."""
        self._require_below_high(FailingModel())

    def _require_below_high(self, model: Model) -> None:
        for score in self._scores(model):
            require(
                score.score < score.high_score,
                f"The model {model.name} scores {score.score} {score.subtask_description}, which "
                f"is not below the high score {score.high_score}.",
            )


def _as_list(scores: ScoreData | list[ScoreData]) -> list[ScoreData]:
    return [scores] if isinstance(scores, ScoreData) else scores


def _without_time(score: ScoreData) -> tuple[Any, list[ExampleScore]]:
    examples = [attrs.evolve(example, latency_ms=None) for example in score.per_example]
    return attrs.evolve(score, per_example=()), examples


class ModelTestMixin(abc.ABC):
    """What every model must do, whatever it answers.

    Attributes:
      prompts: at least two prompts that the model can answer, one of them not in ASCII.
      writes_text: whether `generate_text` is supported.
      scores_text: whether `cond_log_prob` is supported.
      scores_whole_texts: whether `rolling_log_prob` is supported.
      repeatable: whether the same request gets the same answer; False for sampling models.
    """

    prompts: Sequence[str] = ("compute: 2 + 2", "Wie heißt die Hauptstadt von 日本? 🙂", "")
    writes_text = True
    scores_text = False
    scores_whole_texts = False
    repeatable = True

    @abc.abstractmethod
    def make_model(self) -> Model:
        """Make the model under test anew."""
        raise NotImplementedError

    def test_model_data_describes_the_model(self) -> None:
        """`model_data` gives ModelData fit for JSON, and there is a name."""
        model = self.make_model()
        data = model.model_data()
        require(isinstance(data, ModelData), f"model_data gave {data!r}.")
        require(isinstance(model.name, str) and model.name.strip(), f"The name is {model.name!r}.")
        json.dumps(attrs.asdict(data), allow_nan=False)

    def test_max_concurrency_is_a_count(self) -> None:
        """`max_concurrency` is a whole number of at least 1."""
        count = self.make_model().max_concurrency
        require(isinstance(count, int) and count >= 1, f"max_concurrency is {count!r}.")

    def test_fingerprint_states_the_model(self) -> None:
        """The fingerprint is None or a text, the same for two models made alike."""
        first, second = self.make_model().fingerprint(), self.make_model().fingerprint()
        require(
            first is None or (isinstance(first, str) and first.strip()),
            f"The fingerprint is {first!r}; it must be None or a text.",
        )
        require(first == second, f"Two models made alike differ: {first!r}, {second!r}.")

    def test_unsupported_methods_say_so(self) -> None:
        """What the model cannot do raises UnsupportedByModel with the model's name."""
        model = self.make_model()
        calls: list[tuple[bool, str, Callable[[], object]]] = [
            (self.writes_text, "generate_text", lambda: model.generate_text(self.prompts[0])),
            (self.scores_text, "cond_log_prob", lambda: model.cond_log_prob("2 +", [" 2"])),
            (
                self.scores_whole_texts,
                "rolling_log_prob",
                lambda: model.rolling_log_prob(["some text"]),
            ),
        ]
        for supported, method, call in calls:
            if supported:
                continue
            try:
                answer = call()
            except UnsupportedByModel as error:
                require(model.name in str(error), f"{error} does not name the model.")
            else:
                require(False, f"{method} gave {answer!r}; UnsupportedByModel is due.")

    def test_text_for_text(self) -> None:
        """One prompt gives one string."""
        if self.writes_text:
            model = self.make_model()
            for prompt in self.prompts:
                answer: object = model.generate_text(prompt)
                require(isinstance(answer, str), f"generate_text of a string gave {answer!r}.")

    def test_list_for_list_in_order(self) -> None:
        """A sequence of prompts gives a list of as many strings, in their order."""
        if not self.writes_text:
            return
        model = self.make_model()
        prompts = list(self.prompts)
        answers = model.generate_text(prompts)
        require(isinstance(answers, list), f"generate_text of a list gave {answers!r}.")
        require(len(answers) == len(prompts), f"{len(prompts)} prompts got {len(answers)} answers.")
        require(all(isinstance(answer, str) for answer in answers), f"Not all texts: {answers!r}.")
        require(prompts == list(self.prompts), "generate_text changed the list it was given.")
        if self.repeatable:
            backwards = model.generate_text(tuple(reversed(prompts)))
            require(
                backwards == answers[::-1],
                f"Answers do not follow their prompts: {answers!r}, backwards {backwards!r}.",
            )

    def test_empty_lists(self) -> None:
        """No requests give no answers."""
        model = self.make_model()
        if self.writes_text:
            require(model.generate_text([]) == [], "generate_text([]) must give [].")
        if self.scores_text:
            require(model.cond_log_prob([], []) == [], "cond_log_prob([], []) must give [].")
        if self.scores_whole_texts:
            require(list(model.rolling_log_prob([])) == [], "rolling_log_prob([]) must give [].")

    def test_post_processing(self) -> None:
        """max_length, stop_string and output_regex cut the answer as `postprocess_output` does."""
        if not self.writes_text:
            return
        model = self.make_model()
        for prompt in self.prompts:
            whole = model.generate_text(prompt)
            for wishes in _wishes(whole):
                answer = model.generate_text(prompt, **wishes)
                limit = wishes.get("max_length")
                require(limit is None or len(answer) <= limit, f"{wishes} gave {answer!r}.")
                if self.repeatable:
                    expected = postprocess_output(whole, **wishes)
                    require(answer == expected, f"{wishes}: {answer!r}, expected {expected!r}.")

    def test_log_probs_have_the_shape_of_the_targets(self) -> None:
        """One context gives a flat list, several give a list of lists, in order."""
        if not self.scores_text:
            return
        model = self.make_model()
        one = model.cond_log_prob("2 + 2 =", [" 4", " five"])
        require(len(one) == 2 and all(map(_is_log_prob, one)), f"cond_log_prob gave {one!r}.")
        contexts, targets = (
            ["2 + 2 =", "", "日本"],
            [[" five", " 4"], ["a", "bc", "def"], ["語", "é"]],
        )
        several = model.cond_log_prob(contexts, targets)
        require(
            [len(row) for row in several] == [2, 3, 2], f"cond_log_prob gave the shape {several!r}."
        )
        require(all(_is_log_prob(value) for row in several for value in row), f"{several!r}")
        if self.repeatable:
            require(_close(several[0][::-1], one), f"The order is lost: {one!r}, {several[0]!r}.")

    def test_log_probs_are_normalized_unless_asked_otherwise(self) -> None:
        """By default the probabilities of one context's targets sum to 1; absolute ones do not."""
        if not self.scores_text:
            return
        model = self.make_model()
        targets = [" 4", " five", " a great many"]
        normalized = model.cond_log_prob("2 + 2 =", targets)
        absolute = model.cond_log_prob("2 + 2 =", targets, absolute_normalization=True)
        total = sum(map(math.exp, normalized))
        require(abs(total - 1.0) < _TOLERANCE, f"Normalized probabilities sum to {total}.")
        sum_ = sum(map(math.exp, absolute))
        require(sum_ <= 1.0 + _TOLERANCE, f"Absolute probabilities sum to {sum_}.")
        if self.repeatable:
            shift = math.log(sum_) if sum_ > 0.0 else 0.0
            require(
                sum_ == 0.0 or _close([value - shift for value in absolute], normalized),
                f"Absolute {absolute!r} and normalized {normalized!r} do not agree.",
            )

    def test_mismatched_targets_are_refused(self) -> None:
        """Two contexts with one list of targets are a ValueError."""
        if self.scores_text:
            try:
                answer = self.make_model().cond_log_prob(["a", "b"], [["c"]])
            except ValueError:
                return
            require(False, f"Two contexts with one list of targets gave {answer!r}.")

    def test_whole_texts_have_log_probs(self) -> None:
        """`rolling_log_prob` gives one number for each text."""
        if self.scores_whole_texts:
            values = list(self.make_model().rolling_log_prob(["some text", "日本", "a"]))
            require(len(values) == 3 and all(map(_is_log_prob, values)), f"It gave {values!r}.")

    def test_concurrent_calls(self) -> None:
        """As many calls as `max_concurrency` allows (8 at most here) do not disturb each other."""
        model = self.make_model()
        if not self.writes_text or model.max_concurrency == 1:
            return
        prompts = list(self.prompts)
        alone = model.generate_text(prompts)
        with ThreadPoolExecutor(min(model.max_concurrency, 8)) as pool:
            together = list(pool.map(lambda _: model.generate_text(prompts), range(16)))
        for answers in together:
            require(len(answers) == len(prompts), "A concurrent call lost answers.")
            require(not self.repeatable or answers == alone, "Concurrent calls changed answers.")


def _is_log_prob(value: object) -> bool:
    is_number = is_finite_number(value) or value == -math.inf
    return is_number and float(value) <= _TOLERANCE  # type: ignore[arg-type]


def _close(first: Sequence[float], second: Sequence[float]) -> bool:
    return all(
        a == b or math.isclose(a, b, rel_tol=_TOLERANCE, abs_tol=_TOLERANCE)
        for a, b in zip(first, second, strict=True)
    )


def _wishes(whole: str) -> Iterator[dict[str, Any]]:
    """Ways to cut the answer `whole`: at its beginning, in its middle, and so that none is left."""
    yield {"max_length": 1}
    yield {"max_length": max(1, len(whole) // 2)}
    yield {"stop_string": whole[len(whole) // 2 :] or "no such text"}
    yield {"output_regex": r"\w"}
    yield {"output_regex": r"no such text"}
