"""`seqjax fit` on a few short sequences: rounds, training, resuming, the folder, the page, and what is refused."""

import csv
import json
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from seqjax.bodies import convolutional, windowed
from seqjax.cli import fit as cli_fit
from seqjax.cli import main
from seqjax.events import Question, read_events
from seqjax.events.targets import Targets
from seqjax.fit import Settings, fit, fitted, learn
from seqjax.fit.bags import bag_models, bags, boosted, boosted_numbers, likeliest, logistic, nearest, one_thread, ridge
from seqjax.fit.learn import after_round, ended, learned, started
from seqjax.fit.metrics import compared, drawn, scored
from seqjax.fit.order import last_answers
from seqjax.fit.prepare import fingerprint, prepare, recent, widths_of
from seqjax.fit.rounds import round_of, rows_of_update
from seqjax.fit.speak import log_softmax
from seqjax.fit.task import bucket_task
from seqjax.fit.words import rows_of, verdict
from seqjax.fit.write import numbers
from seqjax.model import load_model
from seqjax.plan import Plan
from seqjax.statistics import Mean
from seqjax.train import many

SETTINGS = Settings(hidden=4, seeds=2, rounds=3, batch=32)
SCRIPT, BOLD = "<script>alert(1)</script>", "<b>yes</b>"


@pytest.fixture(scope="module", autouse=True)
def one_at_a_time():
    """The plan whose programs are compiled soonest."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(learn, "plan_for", lambda runs: Plan())
        yield


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A file of 60 sequences of 3 to 8 events, whose answer is whether a comes before b; `level` counts something."""
    path = tmp_path_factory.mktemp("fit") / "data.csv"
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        out = csv.writer(file)
        out.writerow(["sequence", "kind", "amount", "answer", "level"])
        for n in range(60):
            kinds = rng.permutation(
                np.array(["a", "b", *rng.choice([SCRIPT, "c"], rng.integers(1, 7))], object)
            ).tolist()
            answer = BOLD if kinds.index("a") < kinds.index("b") else "no"
            for kind in kinds:
                amount = "" if rng.random() < 0.1 else round(rng.normal(), 6)
                out.writerow([f"s{n}", kind, amount, answer, len(kinds) + n / 100])
    return path


@pytest.fixture(scope="module")
def events(data):
    """The events of the file."""
    return read_events(data, target="answer", fields=["kind", "amount"])


@pytest.fixture(scope="module")
def found(events):
    """A fit, and how often the training step was traced for it."""
    with pytest.MonkeyPatch.context() as patch:
        traces, advance = [], many.advance
        patch.setattr(many, "advance", lambda *args: traces.append(args[1]) or advance(*args))
        made = fit(events, SETTINGS)
    return SimpleNamespace(fitted=made, traces=traces)


def test_a_round_spreads_its_buckets():
    """Batches as even as can be, those of a bucket evenly spaced; an empty bucket has none."""
    whole = round_of([70, 8, 0, 30], 32)
    assert (whole.counts, whole.batches) == ((3, 1, 0, 1), (24, 8, 0, 30))
    assert whole.buckets == (0, 0, 1, 3, 0)
    assert [rank for bucket, rank in zip(whole.buckets, whole.ranks, strict=True) if bucket == 0] == [0, 1, 2]


def test_a_round_visits_every_sequence_once():
    """Whatever does not fill a batch leaves at most one place of it empty; another round, another order."""
    whole = round_of([5, 22], 8)
    rows = jax.jit(
        lambda update, bucket: rows_of_update(jax.random.key(0), update, (5, 22)[bucket], bucket, whole),
        static_argnums=1,
    )
    rounds = []
    for first in (0, len(whole.buckets)):
        drawn = {0: [], 1: []}
        for place, bucket in enumerate(whole.buckets):
            batch = np.asarray(rows(jnp.int32(first + place), bucket))
            assert (batch < 0).sum() <= 1
            drawn[bucket] += batch[batch >= 0].tolist()
        assert [sorted(drawn[b]) for b in (0, 1)] == [list(range(5)), list(range(22))]
        rounds.append(drawn)
    assert rounds[0] != rounds[1]


def test_batches_hold_training_sequences_only(found):
    """The events and answers of a round's batches are those of the training part, each once."""
    prepared = found.fitted.prepared
    train = prepared.parts.train
    own = prepared.bucket(train)
    whole = round_of([int((own == b).sum()) for b in range(len(prepared.widths))], SETTINGS.batch)
    drawn, wanted = Counter(), Counter()
    for bucket, width in enumerate(prepared.widths):
        task = bucket_task(prepared, train[own == bucket], bucket, whole)
        draw = jax.jit(
            lambda update, task=task, bucket=bucket: task.draw(jax.random.key(1), update, whole.batches[bucket])
        )
        for place in np.flatnonzero(np.array(whole.buckets) == bucket):
            batch = draw(jnp.int32(place))
            rows = zip(np.asarray(batch.xs), np.asarray(batch.lengths), np.asarray(batch.targets), strict=True)
            drawn.update((xs[:length].tobytes(), int(target)) for xs, length, target in rows if target >= 0)
        batch, answers = prepared.padded(train[own == bucket], width)
        xs = np.asarray(prepared.encoding.dense(batch.codes, batch.numbers))
        wanted.update((x[:n].tobytes(), int(y)) for x, n, y in zip(xs, batch.lengths, answers, strict=True))
    assert drawn == wanted
    assert drawn.total() == len(train)


def test_no_sequence_is_in_two_parts(found):
    """All of them are in one."""
    assert sorted(np.concatenate(found.fitted.prepared.parts).tolist()) == list(range(60))


def test_compiled_once_a_width(found):
    """At most three widths, and one trace of the training step for each, whatever the seeds and rounds."""
    assert 1 < len(found.fitted.prepared.widths) <= 3
    assert found.traces == [1] * len(found.fitted.prepared.widths)


def test_buckets_hold_half_a_batch():
    """Or there is one width for all."""
    lengths = np.array([1] * 10 + [50, 100])
    assert widths_of(lengths, np.arange(12), 2) == (1, 50, 100)
    assert widths_of(lengths, np.arange(12), 4) == (1, 100)
    assert widths_of(lengths, np.arange(10), 64) == (100,)


def test_answers_do_not_depend_on_how_they_are_batched(found):
    """Block by block and width by width as one sequence at a time, without padding."""
    prepared, each = found.fitted.prepared, found.fitted.learned["GRU"]
    rows = prepared.parts.test
    outputs = each.speaker.outputs(each.params, rows)[each.chosen]
    forward = jax.jit(lambda xs, length: each.network.apply(each.one(), xs, lengths=length).last)
    for row, output in zip(rows, outputs, strict=True):
        batch = prepared.padded(np.array([row]), prepared.widths[-1])[0]
        alone = forward(prepared.encoding.dense(batch.codes, batch.numbers), batch.lengths)
        np.testing.assert_allclose(output, alone[0], rtol=1e-5, atol=1e-6)


def test_recent_events_are_all_that_a_window_sees(found):
    """A window and a convolution say the same of whole sequences as of the last events that they see."""
    prepared = found.fitted.prepared
    cut, rows = recent(prepared, 3, 24), np.arange(60)
    assert cut.widths == (3,)
    for network in (windowed(3), convolutional(2, (1, 1))):
        params = network.init(jax.random.key(0), prepared.encoding.D, 3, 2)
        said = []
        for each in (prepared, cut):
            batch = each.padded(rows, each.widths[-1])[0]
            xs = each.encoding.dense(batch.codes, batch.numbers)
            said.append(jax.jit(network.apply)(params, xs, lengths=batch.lengths).last)
        np.testing.assert_allclose(*said, rtol=1e-5, atol=1e-6)


def test_loss_of_validation_is_the_best_rounds(found):
    """The params that were kept have the loss that was written down, the least of the curve."""
    prepared, each = found.fitted.prepared, found.fitted.learned["GRU"]
    again = each.speaker.losses(each.params, prepared.parts.validation)
    np.testing.assert_allclose(again, each.best_loss, rtol=1e-6)
    np.testing.assert_array_equal(each.best_loss, np.nanmin(each.validation, axis=1))
    assert each.chosen == each.best_loss.argmin()


def test_a_stopped_fit_goes_on_to_the_same_numbers(found, tmp_path, monkeypatch):
    """Killed after its first and after its second round; and it refuses other data by name."""
    monkeypatch.setattr(learn, "MINUTES", 0)
    prepared, whole = found.fitted.prepared, found.fitted.learned["GRU"]

    def go(stop, about=None):
        def show(done, rounds, course):
            if done == stop:
                raise KeyboardInterrupt

        return learned(whole.network, prepared, SETTINGS, folder=tmp_path, about=about, show=show)

    for stop in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            go(stop)
    with pytest.raises(ValueError, match="of a run with data"):
        go(0, {"data": "another"})
    again = go(0)
    for name in ("train", "validation", "best_loss", "best_round"):
        np.testing.assert_array_equal(getattr(again, name), getattr(whole, name))
    jax.tree.map(np.testing.assert_array_equal, again.params, whole.params)


def scripted(losses, failed_at=(-1, -1)):
    """A trainer whose validation losses are given, [round][seed], and the course before its first round."""
    states = SimpleNamespace(params=np.zeros(2), failed_at=np.array(failed_at), cause=np.array([0, 1]))
    losses = iter(losses)
    speaker = SimpleNamespace(
        losses=lambda params, rows: np.array(next(losses)),
        prepared=SimpleNamespace(parts=SimpleNamespace(validation=None)),
        network=SimpleNamespace(name="gru"),
    )
    step = lambda s: (SimpleNamespace(**vars(s) | {"params": s.params + 1}), np.ones(2))  # noqa: E731
    settings = replace(SETTINGS, patience=2, rounds=5)
    return SimpleNamespace(round=step, speaker=speaker), started(states, settings), settings


def test_every_seed_stops_by_itself():
    """Two rounds after its best; what a stopped seed would go on to do does not count."""
    made, course, settings = scripted([[3, 3], [2, 4], [2.5, 5], [1, 0], [1, 0]])
    for done in range(4):
        course = after_round(made, course, done, settings)
        if done == 2:
            assert course.stopped.tolist() == [False, True]
    assert (course.best_loss.tolist(), course.best_round.tolist(), course.best.tolist()) == ([1, 3], [4, 1], [4, 1])
    assert {np.dtype(kind) for kind in ("int32", "bool", "float32")} == {
        np.asarray(getattr(course, name)).dtype
        for name in ("best_loss", "best_round", "stopped", "train", "validation")
    }
    np.testing.assert_array_equal(course.validation, [[3, 2, 2.5, 1, np.nan], [3, 4, 5, np.nan, np.nan]])


def test_failed_seeds_are_told_apart():
    """A failed seed stops, and is not chosen; where all fail it is an error."""
    made, course, settings = scripted([[3, 1]], failed_at=(-1, 7))
    course = after_round(made, course, 0, settings)
    each = ended(made.speaker, course, 1)
    assert course.stopped.tolist() == [False, True]
    assert (each.sound.tolist(), each.chosen, each.causes) == ([0], 0, ["", "loss"])
    course.states.failed_at[0] = 9
    with pytest.raises(ValueError, match=r"every seed of gru failed .*at update 7"):
        ended(made.speaker, course, 1)


@pytest.fixture(scope="module")
def folder(found, data, tmp_path_factory):
    """What the command writes and prints."""
    out = tmp_path_factory.mktemp("out") / "fit"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqjax.cli.fit.fit", lambda events, settings, **options: found.fitted)
        assert main(["fit", str(data), "--target", "answer", "--out", str(out)]) == 0
    return out


def test_the_folder_is_whole(folder, found):
    """All files, nothing else; metrics are JSON without words for numbers."""
    from seqjax.fit.write import FILES

    assert {path.name for path in folder.iterdir()} == set(FILES) - {"predictions.svg"}
    said = json.loads((folder / "metrics.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert said["scores"]["GRU"]["AUROC"]["value"] == found.fitted.scores["GRU"]["AUROC"].value
    assert len(said["training"]["GRU"]["validation"]) == SETTINGS.seeds


def test_numbers_that_json_has_not_are_null(found):
    """Infinite and undefined scores of seeds, losses and intervals."""
    bad = Mean(np.inf, np.nan, -np.inf)
    scores = {name: dict.fromkeys(each, bad) for name, each in found.fitted.scores.items()}
    seeds = {name: [np.nan, np.float64(np.inf), 1.5] for name in found.fitted.seeds}
    made = replace(found.fitted, scores=scores, seeds=seeds)
    told = json.loads(json.dumps(numbers(made), allow_nan=False))
    assert told["scores"]["GRU"]["AUROC"] == {"value": None, "low": None, "high": None}
    assert told["seeds"]["accuracy"] == [None, None, 1.5]


def test_the_model_says_what_was_written_down(folder, found, events):
    """The model in the folder gives the probabilities of predictions.csv, of the test sequences."""
    model, prepared = load_model(folder), found.fitted.prepared
    with (folder / "predictions.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == events.ids[prepared.parts.test].tolist()
    batch = prepared.padded(prepared.parts.test, prepared.widths[-1])[0]
    outputs = model.network.apply(model.params, model.encoding.dense(batch.codes, batch.numbers), lengths=batch.lengths)
    said = np.exp(log_softmax(np.asarray(outputs.last, np.float64)))
    for row, answer, truth in zip(rows, said, prepared.answers[prepared.parts.test], strict=True):
        assert row["target"] == model.question.classes[truth]
        assert row["prediction"] == model.question.classes[answer.argmax()]
        np.testing.assert_allclose(
            float(row[f"probability_{BOLD}"]), answer[list(model.question.classes).index(BOLD)], 1e-4
        )


def test_the_page_escapes_words_of_the_data(folder):
    """A category and a class that look like HTML are text, and nothing is read from elsewhere."""
    page = (folder / "page.html").read_text(encoding="utf-8")
    for word in ("<script", "<b>", "http://", "https://", 'src="/'):
        assert word not in page
    assert "&lt;b&gt;yes&lt;/b&gt;" in page
    assert page.count("data:image/svg+xml;base64,") == 5


def test_a_finished_fit_is_kept(folder, data, capsys):
    """Without --overwrite; and a folder of other things always is."""
    before = (folder / "page.html").stat().st_mtime_ns
    assert main(["fit", str(data), "--target", "answer", "--out", str(folder)]) == 2
    assert "--overwrite" in capsys.readouterr().err
    assert main(["fit", str(data), "--target", "answer", "--out", str(data.parent), "--overwrite"]) == 2
    assert "holds other things" in capsys.readouterr().err
    assert (folder / "page.html").stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--target", "nothing"], "no column 'nothing'"),
        (["--target", "answer", "--cell", "gruu"], "unknown cell 'gruu'"),
        (["--target", "answer", "--cell", "one-pole", "--dropout", "0.5"], "dropout|recurrent|one-pole"),
        (["--target", "answer", "--hidden", "0"], "hidden must be an integer of at least 1"),
        (["--target", "answer", "--test", "0"], "test must be a share"),
        (["--target", "answer", "--validation", "0.5", "--test", "0.5"], "leave nothing to train on"),
        (["--target", "answer", "--learning-rate", "nan"], "learning_rate"),
        (["--target", "answer", "--split", "time"], "a split by time needs times"),
        (["--target", "answer", "--categories", "level", "--numbers", "level"], "both"),
        (["--target", "answer", "--rounds", "many"], "rounds"),
        (["--target", "answer", "--out", "x" * 201], "must be a name of at most 200 bytes, it has 201"),
    ],
)
def test_bad_calls_write_nothing(data, tmp_path, capsys, options, words):
    """One line, exit code 2; no folder on the way to one is left either."""
    assert main(["fit", str(data), "--out", str(tmp_path / "far" / "out"), *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert any(word in error for word in words.split("|"))
    assert not list(tmp_path.iterdir())


def test_texts_that_stand_for_missing_values(data, tmp_path, monkeypatch):
    """Are those that are said."""
    asked = {}
    monkeypatch.setattr(cli_fit, "read_events", lambda path, **how: asked.update(how) or read_events(path, **how))
    assert main(["fit", str(data), "--target", "gone", "--missing", "?", "--out", str(tmp_path / "out")]) == 2
    assert asked["missing"] == ("?",)


def test_answers_that_cannot_be_trained_on(events):
    """Too large or too close for a variance, all one, a class of events that no training sequence has."""
    question = Question("level", "regression")
    N = len(events.ids)
    for low, high in ((-1e200, 1e200), (0, 1e-300)):
        told = replace(events, targets=Targets(question, np.where(np.arange(N) % 2, low, high)))
        with pytest.raises(ValueError, match=r"answers in 'level', up to .* too large or too close for a variance"):
            prepare(told, SETTINGS)
    with pytest.raises(ValueError, match="every training answer in 'level' is 3: there is nothing to learn"):
        prepare(replace(events, targets=Targets(question, np.full(N, 3.0))), SETTINGS)
    codes = np.arange(events.offsets[-1], dtype=np.int32) % 2
    told = replace(events, targets=Targets(Question("kind", "multiclass", ("u", "v", "w"), per_event=True), codes))
    codes[events.within(prepare(told, SETTINGS).parts.test)] = 2
    with pytest.raises(ValueError, match="no training sequence has an answer 'w' in 'kind': take another split seed"):
        prepare(told, SETTINGS)


def test_settings_are_told_apart_by_what_is_fitted(events, data):
    """The hash of the data is that of its events, answers and ids."""
    again = read_events(data, target="answer", fields=["kind", "amount"])
    other = read_events(data, target="answer", fields=["kind"])
    assert fingerprint(events) == fingerprint(again) != fingerprint(other)


def test_compared_with_models_without_order(found):
    """In words: behind a better one, ahead of a worse one."""
    whole = found.fitted
    truth = np.eye(2)[whole.said["GRU"].truth]
    good, bad = (replace(whole.said["GRU"], said=0.8 * each + 0.1) for each in (truth, truth[:, ::-1]))
    names = ("logistic regression on counts", "window of the last 16 events")
    for ours, theirs, words in (
        (bad, good, ("worse", "is not shown here")),
        (good, bad, ("better by", "counts do not")),
    ):
        model = whole.said | {"GRU": ours} | dict.fromkeys(names, theirs)
        draws = drawn(model)
        changed = replace(whole, said=model, scores=scored(draws), ahead=compared(draws, "GRU", "AUROC"))
        text = " ".join(verdict(changed))
        assert all(word in text for word in words), text
    assert next(row["model"] for row in rows_of(changed)) == "GRU"


def test_bags_know_no_order(found):
    """Counts and shares that are known; those of a prefix are those of the whole."""
    prepared = found.fitted.prepared
    features = bags(prepared, np.arange(60))
    words, lengths = prepared.encoding.words[0], prepared.events.lengths
    np.testing.assert_allclose(features[:, 0], np.log1p(lengths))
    np.testing.assert_array_equal(features[:, 1 + words.values.index("a")], 1)
    np.testing.assert_allclose(features[:, 1 + words.width + words.values.index("b")], 1 / lengths)
    every = replace(prepared, question=replace(prepared.question, per_event=True))
    np.testing.assert_allclose(bags(every, np.arange(60))[np.cumsum(lengths) - 1], features)


def test_bag_models_find_what_counts_tell(found):
    """A plane, of which the side is a class, that trees find roughly and linear models well; a class that training did
    not have has probability 0; and all of them answer for the test part."""
    pytest.importorskip("sklearn")
    rng = np.random.default_rng(0)
    xs, its, test = (rng.normal(size=(n, 3)) for n in (300, 100, 100))
    plane, classes = np.array([2.0, -1, 0]), lambda xs: 2 * (xs @ [2, -1, 0] > 0)
    for model, least in ((logistic, 0.95), (boosted, 0.85)):
        with one_thread():
            said = likeliest(model(xs, classes(xs), its, test, 4), classes(its))
        assert (said.argmax(1) == classes(test)).mean() > least
        assert not said[:, [1, 3]].any()
    for model, most in ((ridge, 0.01), (boosted_numbers, 0.3)):
        with one_thread():
            said = nearest(model(xs, xs @ plane, its, test), its @ plane)
        assert ((said - test @ plane) ** 2).mean() < most * 5
    for said in bag_models(found.fitted.prepared).values():
        assert said.shape == (len(found.fitted.prepared.parts.test), 2)
        np.testing.assert_allclose(said.sum(1), 1)


def test_regression_of_every_event(data, monkeypatch):
    """Answers in their own unit, one an event, of which the first half is not known."""
    events = read_events(data, target="level", fields=["kind"], per_event=True)
    values = events.targets.values.copy()
    values[
        np.concatenate([np.arange(a, (a + b) // 2) for a, b in zip(events.offsets, events.offsets[1:], strict=False)])
    ] = np.nan
    events = replace(events, targets=replace(events.targets, values=values))
    settings = replace(SETTINGS, seeds=1, rounds=1, batch=64)
    monkeypatch.setattr(fitted, "order_of", lambda *args: None)
    made = fit(events, settings)
    said = made.said["GRU"]
    test = events.within(made.prepared.parts.test) & ~np.isnan(values)
    np.testing.assert_array_equal(said.truth, values[test])
    assert said.said.shape == said.truth.shape
    assert abs(said.said.mean() - values[test].mean()) < 3
    batch = last_answers(made.prepared)
    assert not jnp.isnan(batch.targets).any()
    assert "RMSE" in verdict(made)[0]
