"""Compute BERT in bfloat16 on a CPU with OpenVINO, an optional dependency."""

import warnings
from copy import deepcopy
from threading import local

import openvino
import torch
from openvino.frontend import FrontEndManager
from openvino.frontend.pytorch.ts_decoder import TorchScriptPythonDecoder
from torch import Tensor, nn

from aragorn.models.transformer import BERT
from aragorn.threads import count_cpu_cores

EXAMPLE_LENGTH = 8  # the compiled network accepts all lengths


class OpenVINOBERT:
    """BERT compiled for bfloat16, with a copy of the weights.

    Each stream computes a whole batch on one thread, so that results do not depend on threads.
    """

    def __init__(self, bert: BERT, has_all_layers: bool) -> None:
        """Compile BERT; it returns the hidden states of all layers, or only the last ones."""
        mask = torch.ones(2, EXAMPLE_LENGTH, dtype=torch.long)
        mask[1, -1] = 0  # without padding, the conversion would omit the mask
        example = (torch.ones_like(mask), mask, torch.zeros_like(mask), _build_position_ids(mask))
        network = _HiddenStates(deepcopy(bert), has_all_layers).eval()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tracing warns of each comparison of lengths
            decoder = TorchScriptPythonDecoder(network, example_input=example)
        frontend = FrontEndManager().load_by_framework("pytorch")
        model = frontend.convert(frontend.load(decoder))
        n_threads = count_cpu_cores()
        settings = {
            "INFERENCE_PRECISION_HINT": "bf16",
            "NUM_STREAMS": n_threads,
            "INFERENCE_NUM_THREADS": n_threads,
            # several processes would pin their threads to the same cores
            "ENABLE_CPU_PINNING": False,
        }
        self._compiled_model = openvino.compile_model(model, "CPU", settings)
        self._thread_local = local()  # a request serves one thread at a time

    def __call__(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
    ) -> tuple[Tensor, ...]:
        """Compute hidden states (R, T, E) float32 of each layer; arguments as for `BERT`."""
        inputs = (
            input_ids,
            torch.ones_like(input_ids) if attention_mask is None else attention_mask,
            torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids,
            _build_position_ids(input_ids) if position_ids is None else position_ids,
        )
        if not hasattr(self._thread_local, "request"):
            self._thread_local.request = self._compiled_model.create_infer_request()
        outputs = self._thread_local.request.infer(
            [tensor.contiguous().numpy() for tensor in inputs], share_inputs=True
        )
        return tuple(torch.from_numpy(output) for output in outputs.to_tuple())


class _HiddenStates(nn.Module):
    """Positional-argument wrapper of BERT for tracing."""

    def __init__(self, bert: BERT, has_all_layers: bool) -> None:
        super().__init__()
        self.bert = bert
        self.has_all_layers = has_all_layers

    def forward(
        self, ids: Tensor, mask: Tensor, token_type_ids: Tensor, position_ids: Tensor
    ) -> tuple[Tensor, ...]:
        layers: tuple[Tensor, ...] = self.bert(ids, mask, token_type_ids, position_ids)
        return layers if self.has_all_layers else layers[-1:]


def _build_position_ids(ids: Tensor) -> Tensor:
    """Number the positions (R, T) of each row."""
    return torch.arange(ids.shape[1]).expand_as(ids).contiguous()
