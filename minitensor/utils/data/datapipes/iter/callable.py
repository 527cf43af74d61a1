"""Pipes that call a function of each sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from minitensor.utils.data.collate import default_collate
from minitensor.utils.data.datapipes.datapipe import IterDataPipe
from minitensor.utils.data.datapipes.decorators import functional_datapipe
from minitensor.utils.data.datapipes.functions import StreamWrapper, check_columns, length_of, warn_of_unpicklable

__all__ = ["CollatorIterDataPipe", "FilterIterDataPipe", "MapperIterDataPipe"]


def _called(function: Callable[..., Any], sample: Any, columns: Any) -> Any:
    if columns is None:
        return function(sample)
    if isinstance(columns, (list, tuple)):
        return function(*(sample[column] for column in columns))
    return function(sample[columns])


@functional_datapipe("map")
class MapperIterDataPipe(IterDataPipe[Any]):
    """A function of each sample, or of columns of it, whose result goes to another column; -1 is a new one."""

    def __init__(self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        """Without `output_col` the result takes the place of the first input column, and the others go."""
        super().__init__()
        warn_of_unpicklable(fn)
        self.datapipe, self.fn, self.input_col = datapipe, fn, input_col
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.output_col = output_col
        check_columns(fn, input_col)

    def _of(self, sample: Any) -> Any:
        result = _called(self.fn, sample, self.input_col)
        if self.input_col is None:
            return result
        held = list(sample) if isinstance(sample, tuple) else sample
        if self.output_col == -1:
            held.append(result)
        elif self.output_col is not None:
            held[self.output_col] = result
        elif isinstance(self.input_col, (list, tuple)):
            held[self.input_col[0]] = result
            for column in sorted(self.input_col[1:], reverse=True):
                del held[column]
        else:
            held[self.input_col] = result
        return tuple(held) if isinstance(sample, tuple) else held

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield self._of(sample)

    def __len__(self) -> int:
        return length_of(self, self.datapipe)


@functional_datapipe("collate")
class CollatorIterDataPipe(MapperIterDataPipe):
    """Batches as tensors."""

    def __init__(
        self, datapipe: Any, conversion: Any = default_collate, collate_fn: Callable[..., Any] | None = None
    ) -> None:
        """`conversion` or `collate_fn` makes a batch of a list of samples."""
        function = conversion if collate_fn is None else collate_fn
        if not callable(function):
            raise NotImplementedError("collate: a dict of functions by column is for data frames, which are not here")
        super().__init__(datapipe, fn=function)


@functional_datapipe("filter")
class FilterIterDataPipe(IterDataPipe[Any]):
    """The samples of which a function, of them or of columns of them, is True."""

    def __init__(self, datapipe: Any, filter_fn: Callable[..., Any], input_col: Any = None) -> None:
        """The function gives a bool: anything else is a ValueError."""
        super().__init__()
        warn_of_unpicklable(filter_fn)
        self.datapipe, self.filter_fn, self.input_col = datapipe, filter_fn, input_col
        check_columns(filter_fn, input_col)

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            wanted = _called(self.filter_fn, sample, self.input_col)
            if not isinstance(wanted, bool):
                raise ValueError(
                    f"Boolean output is required for `filter_fn` of FilterIterDataPipe, got {type(wanted)}"
                )
            if wanted:
                yield sample
            else:
                StreamWrapper.close_streams(sample)
