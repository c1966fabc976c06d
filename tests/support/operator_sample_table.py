"""The samples of every operator, by its name: what the oracle of tests/ops runs."""

import samples_attention
import samples_elementwise
import samples_empty
import samples_image
import samples_indexing
import samples_layers
import samples_layout
import samples_linalg
import samples_narrow
import samples_quantization
import samples_random
import samples_shapes
import samples_special
import samples_values
import samples_vision
import samples_windows
from operator_samples import Sample

SAMPLES: dict[str, list[Sample]] = {
    **samples_attention.SAMPLES,
    **samples_elementwise.SAMPLES,
    **samples_image.SAMPLES,
    **samples_indexing.SAMPLES,
    **samples_layers.SAMPLES,
    **samples_layout.SAMPLES,
    **samples_linalg.SAMPLES,
    **samples_quantization.SAMPLES,
    **samples_random.SAMPLES,
    **samples_shapes.SAMPLES,
    **samples_special.SAMPLES,
    **samples_vision.SAMPLES,
    **samples_windows.SAMPLES,
}
# Of each operator the usual samples come first: what runs some only runs those.
for _more in (samples_narrow.SAMPLES, samples_empty.SAMPLES, samples_values.SAMPLES):
    for _name, _found in _more.items():
        SAMPLES[_name] = [*SAMPLES[_name], *_found]
