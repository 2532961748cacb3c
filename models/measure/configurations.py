"""The thirteen models with random weights, and inputs for a training step of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

_WORDS = 1000  # labels and words that inputs are drawn from; every vocabulary has more


@dataclass
class Exchange:
    """Traffic of a worker besides gradients.

    Attributes
    ----------
    kind
        ``all-to-all``: every worker needs an equal share; ``hand-over``: to the next stage.
    begin
        The pass in which it is sent, ``forward`` or ``backward``.
    """

    kind: str
    size: int  # bytes
    begin: str


@dataclass
class Setup:
    """A model, and one step's forward pass.

    Attributes
    ----------
    module
        If it has exchanges, it calls its `mark` with the number of each when that is ready.
    loss
        What the backward pass starts from, computed by the wrapped module from inputs.
    share
        The sample's size over that of the workload's sample.
    local
        Parameters whose gradients stay where they are.
    """

    about: str
    sample: str
    module: nn.Module
    inputs: tuple[Any, ...]
    loss: Callable[[nn.Module, tuple[Any, ...]], Tensor]
    share: Fraction = Fraction(1)
    exchanges: list[Exchange] = field(default_factory=list)
    local: list[str] = field(default_factory=list)
    stages: int = 1
    microbatches: int = 1


@dataclass(frozen=True)
class Configuration:
    """One of the models: its name, and how it is set up.

    `build` takes samples, tokens of a sample (None: those of the workload) and whether the model
    is to be tiny, for tests.
    """

    name: str
    optimizer: str
    build: Callable[[int, int | None, bool], Setup]


# ------------------------------------------------------------------ convolutional networks


def _images(network: str) -> Callable[[int, int | None, bool], Setup]:
    def build(batch: int, tokens: int | None, tiny: bool) -> Setup:
        import torchvision

        if tokens is not None:
            raise ValueError("--tokens: images have none; leave it out")
        side, classes = (64, 10) if tiny else (224, 1000)
        inputs = torch.randn(batch, 3, side, side), torch.randint(classes, (batch,))
        return Setup(
            f"torchvision.models.{network}, random weights",
            f"one image of {side} x {side} pixels",
            getattr(torchvision.models, network)(num_classes=classes),
            inputs,
            lambda module, pair: nn.functional.cross_entropy(module(pair[0]), pair[1]),
            share=Fraction(side * side, 224 * 224),
        )

    return build


# ------------------------------------------------------------------ transformers


def _language_model(
    model: str, config: str, length: int, full: dict[str, int], small: dict[str, int]
) -> Callable[[int, int | None, bool], Setup]:
    def build(batch: int, tokens: int | None, tiny: bool) -> Setup:
        import transformers

        transformers.logging.set_verbosity_error()  # about sampling, which is not used
        tokens = tokens or (16 if tiny else length)
        if tokens > length:
            raise ValueError(f"--tokens: {tokens}: a sample has at most {length}")
        settings = getattr(transformers, config)(**(full | small if tiny else full))
        words = torch.randint(5, _WORDS, (batch, tokens))  # the first few mean padding and the like
        return Setup(
            f"transformers.{model} ({', '.join(f'{key} {value}' for key, value in full.items())}), "
            "random weights",
            f"one sequence of {tokens} tokens",
            getattr(transformers, model)(settings),
            (words,),
            lambda module, batch: module(input_ids=batch[0], labels=batch[0]).loss,
            share=Fraction(tokens, length),
        )

    return build


_BERT = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16}
_SMALL_BERT = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 128,
}


# ------------------------------------------------------------------ GPT-3: a pipeline slice


class _Block(nn.Module):
    """A transformer block as GPT has it: norm first, causal attention, a wide perceptron."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attention, self.output = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.inside = nn.Sequential(
            nn.Linear(hidden, 4 * hidden), nn.GELU(), nn.Linear(4 * hidden, hidden)
        )

    def forward(self, states: Tensor) -> Tensor:
        batch, tokens, hidden = states.shape
        parts = self.attention(self.before(states)).view(batch, tokens, 3, self.heads, -1)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        if hasattr(nn.functional, "scaled_dot_product_attention"):  # torch 2 and later
            mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        else:
            scores = query @ key.transpose(-2, -1) / (hidden // self.heads) ** 0.5
            later = torch.ones(tokens, tokens, dtype=torch.bool, device=states.device).triu(1)
            mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ value
        states = states + self.output(mixed.transpose(1, 2).reshape(batch, tokens, hidden))
        return states + self.inside(self.between(states))


class _Slice(nn.Module):
    """The blocks of one stage; what comes out is handed over, and so is the input's gradient."""

    def __init__(self, layers: int, hidden: int, heads: int) -> None:
        super().__init__()
        self.mark: Callable[[int], None] = lambda _: None
        self.blocks = nn.Sequential(*(_Block(hidden, heads) for _ in range(layers)))

    def forward(self, states: Tensor) -> Tensor:
        states.register_hook(lambda _: self.mark(1))
        states = self.blocks(states)
        self.mark(0)
        return states


def _gpt3(batch: int, tokens: int | None, tiny: bool) -> Setup:
    """Return half of GPT-3 XL, without embeddings and output layer, for one micro-batch of two."""
    length, layers, hidden, heads = (64, 2, 64, 2) if tiny else (2048, 24, 2048, 16)
    tokens = tokens or length
    states = torch.randn(batch, tokens, hidden, requires_grad=True)
    gradient = torch.randn(batch, tokens, hidden)
    size = states.numel() * states.element_size()
    return Setup(
        f"one of two stages: {layers // 2} of {layers} blocks of hidden size {hidden} with {heads} "
        "heads, written here, random weights",
        f"one sequence of {tokens} tokens",
        _Slice(layers // 2, hidden, heads),
        (states, gradient),
        lambda module, pair: (module(pair[0]) * pair[1]).sum(),
        share=Fraction(tokens, 2048),
        exchanges=[Exchange("hand-over", size, "forward"), Exchange("hand-over", size, "backward")],
        stages=2,
        microbatches=2,
    )


# ------------------------------------------------------------------ DLRM


class _Dlrm(nn.Module):
    """Embeddings and a perceptron, the products of all pairs of these, and a perceptron on top.

    A worker looks up what it holds of the tables for the samples of all workers, which are as many
    vectors as it needs itself: so all tables are here, for its own samples.
    """

    def __init__(self, rows: int, bottom: list[int], top: list[int]) -> None:
        super().__init__()
        self.mark: Callable[[int], None] = lambda _: None
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(rows, bottom[-1], mode="sum", sparse=True) for _ in range(26)
        )
        pairs = 27 * 26 // 2
        self.bottom = self._perceptron(bottom)
        self.top = self._perceptron([bottom[-1] + pairs, *top])[:-1]  # ends linear
        self.register_buffer("pairs", torch.tril_indices(27, 27, -1), persistent=False)

    @staticmethod
    def _perceptron(widths: list[int]) -> nn.Sequential:
        pairs = pairwise(widths)
        return nn.Sequential(
            *(part for one, other in pairs for part in (nn.Linear(one, other), nn.ReLU()))
        )

    def forward(self, dense: Tensor, sparse: Tensor) -> Tensor:
        looked_up = torch.stack([table(sparse[i]) for i, table in enumerate(self.tables)], 1)
        self.mark(0)
        looked_up.register_hook(lambda _: self.mark(1))
        bottom = self.bottom(dense)
        vectors = torch.cat([bottom.unsqueeze(1), looked_up], 1)
        products = vectors @ vectors.transpose(1, 2)
        return self.top(torch.cat([bottom, products[:, self.pairs[0], self.pairs[1]]], 1))


def _dlrm(batch: int, tokens: int | None, tiny: bool) -> Setup:
    """Return the model of the Criteo terabyte script, its tables cut to as many rows as fit."""
    if tokens is not None:
        raise ValueError("--tokens: clicks have none; leave it out")
    rows = 1000 if tiny else 100_000
    module = _Dlrm(rows, [13, 512, 256, 64], [512, 512, 256, 1])
    sparse = torch.randint(rows, (26, batch, 1))
    clicks = torch.randint(2, (batch, 1)).float()
    size = batch * 26 * 64 * 4
    return Setup(
        f"perceptrons 13-512-256-64 and 415-512-512-256-1, 26 tables of {rows} rows, written here, "
        "random weights",
        "one click with 13 dense and 26 categorical features",
        module,
        (torch.randn(batch, 13), sparse, clicks),
        lambda module, click: nn.functional.binary_cross_entropy_with_logits(
            module(click[0], click[1]), click[2]
        ),
        exchanges=[
            Exchange("all-to-all", size, "forward"),
            Exchange("all-to-all", size, "backward"),
        ],
        local=[f"tables.{index}.weight" for index in range(26)],
    )


_SMALL_GPT = {"n_embd": 64, "n_layer": 2, "n_head": 2}

CONFIGURATIONS = {
    "vgg11": Configuration("VGG11", "momentum", _images("vgg11")),
    "vgg16": Configuration("VGG16", "momentum", _images("vgg16")),
    "vgg19": Configuration("VGG19", "momentum", _images("vgg19")),
    "resnet50": Configuration("ResNet50", "momentum", _images("resnet50")),
    "wideresnet101": Configuration("WideResNet101", "momentum", _images("wide_resnet101_2")),
    "bert": Configuration(
        "BERT",
        "adamw",
        _language_model(
            "BertForMaskedLM", "BertConfig", 512, _BERT | {"intermediate_size": 4096}, _SMALL_BERT
        ),
    ),
    "roberta": Configuration(
        "RoBERTa",
        "adamw",
        _language_model(
            "RobertaForMaskedLM",
            "RobertaConfig",
            512,
            _BERT
            | {"intermediate_size": 4096, "vocab_size": 50265, "max_position_embeddings": 514},
            _SMALL_BERT,
        ),
    ),
    "camembert": Configuration(
        "CamemBERT",
        "adamw",
        _language_model(
            "CamembertForMaskedLM",
            "CamembertConfig",
            512,
            {"vocab_size": 32005, "max_position_embeddings": 514},
            _SMALL_BERT,
        ),
    ),
    "xlm": Configuration(
        "XLM",
        "adamw",
        _language_model(
            "XLMWithLMHeadModel",
            "XLMConfig",
            256,
            {"emb_dim": 2048, "n_layers": 12, "n_heads": 16, "vocab_size": 30145},
            {"emb_dim": 64, "n_layers": 2, "n_heads": 2},
        ),
    ),
    "gpt1": Configuration(
        "GPT1",
        "adamw",
        _language_model(
            "OpenAIGPTLMHeadModel", "OpenAIGPTConfig", 512, {"vocab_size": 40478}, _SMALL_GPT
        ),
    ),
    "gpt2": Configuration(
        "GPT2",
        "adamw",
        _language_model(
            "GPT2LMHeadModel",
            "GPT2Config",
            1024,
            {"n_embd": 1600, "n_layer": 48, "n_head": 25},
            _SMALL_GPT,
        ),
    ),
    "gpt3": Configuration("GPT3", "adamw", _gpt3),
    "dlrm": Configuration("DLRM", "sgd", _dlrm),
}
