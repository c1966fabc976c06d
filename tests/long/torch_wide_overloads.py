"""Calls of operators of PyTorch that find places, sample images, or are of linear algebra."""

from typing import Any

from torch_cases import Case, family, positive, t, truth
from torch_zoo import functional, torch


@family
def places() -> dict[str, Case]:
    f = functional
    table, ids = t(6, 3), torch.tensor([1, 2, 4, 5, 4, 3, 2, 0])
    return {
        "masked_scatter": (
            lambda x, m, y: x.masked_scatter(m, y * 2),
            [t(3, 4), truth(3, 4), t(2, 7)],
        ),
        "masked_scatter_rows": (
            lambda x, m, y: x.masked_scatter(m[..., None], y),
            [t(2, 3, 4), truth(2, 3), t(6, 4)],
        ),
        "masked_scatter_in_place": (
            lambda x, m, y: x.clone().masked_scatter_(m, y),
            [t(3, 4), truth(4), t(3, 4)],
        ),
        "nonzero_static": (lambda x: torch.nonzero_static(x, size=5), [truth(3, 4)]),
        "nonzero_static_more": (
            lambda x: torch.nonzero_static(x, size=9, fill_value=-7),
            [truth(2, 2, 2)],
        ),
        "triangles": (
            lambda x: (
                x[torch.tril_indices(3, 4, -1).unbind()] + x[torch.triu_indices(3, 3, 1)[0]].sum()
            ),
            [t(3, 4)],
        ),
        "searchsorted": (
            lambda x, y: torch.searchsorted(x.cumsum(0), y, right=True),
            [positive(5), 5 * torch.rand(3, 2)],
        ),
        "bags": (lambda w, i: f.embedding_bag(i, w, torch.tensor([0, 3, 3, 5])), [table, ids]),
        "bags_of_rows": (
            lambda w, i: f.embedding_bag(i, w, mode="sum", padding_idx=4),
            [table, ids.reshape(2, 4)],
        ),
        "bags_without_one": (
            lambda w, i: f.embedding_bag(
                i, w, torch.tensor([0, 2, 8]), padding_idx=-2, include_last_offset=True
            ),
            [table, ids],
        ),
        "bags_weighted": (
            lambda w, i, s: f.embedding_bag(
                i, w, torch.tensor([0, 5]), mode="sum", per_sample_weights=s
            ),
            [table, ids, t(8)],
        ),
    }


@family
def images() -> dict[str, Case]:
    f = functional
    grid = torch.rand(2, 3, 4, 2) * 2.2 - 1.1
    sampled: dict[str, Case] = {
        f"grid_sample_{mode}_{padding}": (
            lambda x, g, mode=mode, padding=padding: f.grid_sample(
                x, g, mode=mode, padding_mode=padding, align_corners=False
            ),
            [t(2, 3, 5, 6), grid],
        )
        for mode in ("bilinear", "nearest", "bicubic")
        for padding in ("zeros", "border", "reflection")
    }
    return sampled | {
        "grid_sample_corners": (
            lambda x, g: f.grid_sample(x, g, align_corners=True),
            [t(2, 3, 5, 6), grid],
        ),
        "grid_sample_volume": (
            lambda x, g: f.grid_sample(x, g, align_corners=False),
            [t(1, 2, 3, 4, 5), torch.rand(1, 2, 2, 2, 3) * 1.8 - 0.9],
        ),
        "affine_grid": (
            lambda a: f.affine_grid(a, (2, 3, 4, 5), align_corners=False),
            [t(2, 2, 3)],
        ),
        "affine_grid_volume": (
            lambda a: f.affine_grid(a, (2, 3, 4, 5, 2), align_corners=True),
            [t(2, 3, 4)],
        ),
        "unfold": (lambda x: f.unfold(x, (2, 3), padding=(1, 0), stride=2), [t(2, 3, 6, 7)]),
        "unfold_dilated": (lambda x: f.unfold(x, 2, dilation=(2, 3)), [t(3, 6, 7)]),
        "fold": (
            lambda x: f.fold(x, (6, 7), (2, 3), padding=(1, 0), stride=2),
            [t(2, 3 * 6, 4 * 3)],
        ),
        "fold_dilated": (lambda x: f.fold(x, (6, 7), 2, dilation=(2, 3)), [t(2 * 4, 4 * 4)]),
        "bicubic": (lambda x: f.interpolate(x, (7, 5), mode="bicubic"), [t(1, 2, 4, 6)]),
        "bicubic_corners": (
            lambda x: f.interpolate(x, scale_factor=2, mode="bicubic", align_corners=True),
            [t(1, 2, 3, 4)],
        ),
        "linear": (lambda x: f.interpolate(x, 9, mode="linear"), [t(2, 3, 4)]),
        "linear_corners": (
            lambda x: f.interpolate(x, scale_factor=3, mode="linear", align_corners=True),
            [t(2, 3, 4)],
        ),
        "circular": (lambda x: f.pad(x, (1, 2, 2, 0), mode="circular"), [t(1, 2, 4, 5)]),
    }


@family
def matrices() -> dict[str, Case]:
    linalg, one = torch.linalg, 3 * torch.eye(3)

    def spd(x: Any) -> Any:
        return x @ x.mT + one

    return {
        "inv": (lambda x: linalg.inv(x + one), [t(2, 3, 3)]),
        "inverse": (lambda x: torch.inverse(x + one), [t(3, 3)]),
        "det": (lambda x: linalg.det(x + one), [t(2, 3, 3)]),
        "slogdet": (lambda x: torch.stack(linalg.slogdet(x + one)), [t(2, 3, 3)]),
        "solve": (lambda x, y: linalg.solve(x + one, y), [t(2, 3, 3), t(2, 3, 4)]),
        "solve_vector": (lambda x, y: linalg.solve(x + one, y), [t(3, 3), t(3)]),
        "cholesky": (lambda x: linalg.cholesky(spd(x)), [t(2, 3, 3)]),
        "cholesky_upper": (lambda x: linalg.cholesky(spd(x), upper=True), [t(3, 3)]),
        "eigvalsh": (lambda x: linalg.eigvalsh(spd(x)), [t(3, 3)]),
        "cdist": (torch.cdist, [t(2, 4, 3), t(2, 5, 3)]),
        "cdist_sums": (lambda x, y: torch.cdist(x, y, p=1.0), [t(4, 3), t(5, 3)]),
        "dist": (torch.dist, [t(4, 3), t(4, 3)]),
        "cross": (linalg.cross, [t(4, 3), t(4, 3)]),
        "cross_front": (lambda x, y: linalg.cross(x, y, dim=0), [t(3, 4), t(3, 4)]),
        "std_mean": (lambda x: torch.stack(torch.std_mean(x, 1)), [t(4, 3)]),
        "aminmax": (lambda x: torch.stack(torch.aminmax(x, dim=1)), [t(4, 3)]),
        "aminmax_all": (lambda x: torch.stack(torch.aminmax(x)), [t(4, 3)]),
    }


@family
def order() -> dict[str, Case]:
    ties, holes = torch.tensor([1.0, 2, 2, 2, 3]), torch.tensor([1.0, float("nan"), 2, 2])
    return {
        "median": (torch.median, [t(3, 4)]),
        "median_ties": (torch.median, [ties]),
        "median_dim": (lambda x: torch.median(x, 1, keepdim=True), [t(3, 4)]),
        "nanmedian": (torch.nanmedian, [holes]),
        "nanmedian_dim": (lambda x: torch.nanmedian(x, 0), [holes]),
        "kthvalue": (lambda x: torch.kthvalue(x, 2, 0), [t(3, 4)]),
        "quantile": (lambda x: torch.quantile(x, 0.3), [t(3, 4)]),
        "quantile_ties": (lambda x: torch.quantile(x, 0.4), [ties]),
        "quantiles": (lambda x: torch.quantile(x, x.new_tensor([0.1, 0.7]), -1), [t(3, 4)]),
        "nanquantile": (lambda x: torch.nanquantile(x, 0.3, 0, True), [holes]),
        "cummax": (lambda x: torch.cummax(x, 0), [torch.tensor([1.0, 1, 0, 2, 2])]),
        "cummin": (lambda x: torch.cummin(x, 1), [t(3, 4)]),
        "logcumsumexp": (lambda x: torch.logcumsumexp(x, 1), [t(3, 4)]),
        "nanmean": (lambda x: torch.nanmean(x, 0), [holes]),
        "fmax": (torch.fmax, [torch.tensor([1.0, float("nan"), 2]), torch.tensor([1.0, 1, 3])]),
        "hypot": (torch.hypot, [t(3, 4), t(4)]),
        "copysign": (torch.copysign, [torch.tensor([0.0, 1, -2]), torch.tensor([-1.0, -0.0, 3])]),
        "reduced_alone": (
            lambda x, y: x.scatter_reduce(
                0, torch.tensor([0, 0, 1]), y, "amax", include_self=False
            ),
            [torch.zeros(3), torch.tensor([0.0, 0, 2])],
        ),
    }


@family
def spectra() -> dict[str, Case]:
    fft = torch.fft
    return {
        "fft": (lambda x: fft.fft(fft.fft(x), dim=0).real, [t(3, 4)]),
        "rfft": (lambda x: fft.rfft(x, 6, norm="ortho").abs(), [t(3, 4)]),
        "irfft": (lambda x: fft.irfft(x), [t(3, 4)]),
        "filter": (lambda x, y: fft.irfft2(fft.rfft2(x) * fft.rfft2(y)), [t(4, 6), t(4, 6)]),
        "stft": (
            lambda x: torch.stft(x, 8, 3, window=torch.hann_window(8), return_complex=True).abs(),
            [t(2, 20)],
        ),
        "polar": (lambda x, y: torch.view_as_real(torch.polar(x.abs(), y)), [t(3), t(3)]),
        "rotation": (
            lambda x, y: torch.view_as_real(torch.view_as_complex(x) * torch.view_as_complex(y)),
            [t(3, 2), t(3, 2)],
        ),
        "angle": (lambda x: torch.angle(torch.view_as_complex(x)), [t(3, 2)]),
    }


@family
def parts() -> dict[str, Case]:
    f = functional
    return {
        "diagonal": (lambda x: x.diagonal(1, 2, 0), [t(2, 3, 4)]),
        "diagonal_written": (_diagonal_written, [t(3, 4), t(3)]),
        "diag_embed": (lambda x: torch.diag_embed(x, 1, 0, 2), [t(3, 4)]),
        "block_diag": (torch.block_diag, [t(2, 3), t(3), t(1, 2)]),
        "kron": (torch.kron, [t(2, 3), t(3, 2)]),
        "tensordot": (lambda x, y: torch.tensordot(x, y, ([0, 2], [1, 0])), [t(2, 3, 4), t(4, 2)]),
        "splits": (lambda x: (*x.tensor_split(3, 1), *torch.hsplit(x, [1])), [t(3, 4)]),
        "take": (lambda x: torch.take(x, torch.tensor([0, -1, 0])), [t(3, 4)]),
        "matrix_norms": (
            lambda x: torch.stack([torch.linalg.norm(x, p) for p in ("fro", "nuc", 1, 2, -1)]),
            [t(3, 4)],
        ),
        "pdist": (lambda x: f.pdist(x), [t(4, 3)]),
        "nearest1d": (lambda x: f.interpolate(x, scale_factor=2), [t(2, 3, 4)]),
        "nearest_exact": (
            lambda x: f.interpolate(x, (7, 3), mode="nearest-exact"),
            [t(1, 2, 4, 5)],
        ),
        "trilinear": (
            lambda x: f.interpolate(x, (3, 5, 4), mode="trilinear", align_corners=True),
            [t(1, 2, 2, 3, 4)],
        ),
        "unpooled": (
            lambda x: f.max_unpool2d(*f.max_pool2d(x, 2, return_indices=True), 2),
            [t(1, 2, 4, 6)],
        ),
        "adaptive_max": (lambda x: f.adaptive_max_pool2d(x, (2, 3)), [t(1, 2, 5, 7)]),
    }


def _diagonal_written(x: Any, y: Any) -> Any:
    written = x * 2
    written.diagonal().copy_(y)
    return written


@family
def decompositions() -> dict[str, Case]:
    linalg, square, weights = torch.linalg, t(2, 3, 3), t(2, 3, 3)
    signal, window = t(2, 64), torch.hann_window(16) + 0.1

    def back(x: Any, w: Any) -> Any:
        return torch.istft(torch.stft(x, 16, window=w, return_complex=True), 16, window=w)

    return {
        "eigenvectors": (
            lambda x, w: linalg.eigh(x @ x.mT)[1] ** 2 * w,
            [square, weights],
        ),
        "singular_vectors": (
            lambda x, w: linalg.svd(x, full_matrices=False)[2] ** 2 * w,
            [t(2, 3, 5), t(2, 3, 5)],
        ),
        "qr": (lambda x, w: linalg.qr(x)[1] * w, [t(2, 3, 5), t(2, 3, 5)]),
        "lu": (lambda x, w: (linalg.lu(x)[1] + linalg.lu(x)[2]) * w, [square, weights]),
        "lu_solve": (lambda x, y: linalg.lu_solve(*linalg.lu_factor(x), y), [square, t(2, 3, 2)]),
        "cholesky_of_a_triangle": (
            lambda x: linalg.cholesky(x @ x.mT + 3 * torch.eye(3) + x.triu(1) / 9),
            [square],
        ),
        "eigvalsh_of_a_triangle": (lambda x: linalg.eigvalsh(x, UPLO="U"), [square]),
        "matrix_exp": (torch.matrix_exp, [square]),
        "istft": (back, [signal, window]),
        "polygamma": (lambda x: torch.polygamma(2, x), [positive(4)]),
        "mode": (lambda x: x.round().mode(1), [t(3, 7)]),
        "instance_norm_running": (
            lambda x: functional.instance_norm(
                x,
                torch.zeros(3, dtype=x.dtype),
                torch.ones(3, dtype=x.dtype),
                use_input_stats=False,
            ),
            [t(2, 3, 5)],
        ),
    }


@family
def scalars() -> dict[str, Case]:
    place = torch.tensor(0)
    return {
        "sums": (lambda x: x.cumsum(0) + x.cumprod(-1) + x.logcumsumexp(0), [t(1)[0]]),
        "order": (lambda x: (x.topk(1)[0], *x.sort(0), x.argmax(0, keepdim=True)), [t(1)[0]]),
        "softmax": (lambda x: x.softmax(0) + x.log_softmax(-1), [t(1)[0]]),
        "places": (
            lambda x, y: (
                x.gather(0, place) + x.index_select(0, place[None]) + x.scatter_add(0, place, y)
            ),
            [t(1)[0], t(1)[0]],
        ),
        "written": (
            lambda x, y: (
                x.index_add(0, place[None], y)
                + x.index_copy(0, place, y) * x.index_fill(0, place, 2)
            ),
            [t(1)[0], t(1)[0]],
        ),
        "flipped": (lambda x: x.flip(0) + x.var(0, correction=0), [t(1)[0]]),
    }
