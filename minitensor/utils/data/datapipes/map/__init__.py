"""Pipes of samples by number."""

from minitensor.utils.data.datapipes.map.pipes import BatcherMapDataPipe as Batcher
from minitensor.utils.data.datapipes.map.pipes import ConcaterMapDataPipe as Concater
from minitensor.utils.data.datapipes.map.pipes import MapperMapDataPipe as Mapper
from minitensor.utils.data.datapipes.map.pipes import SequenceWrapperMapDataPipe as SequenceWrapper
from minitensor.utils.data.datapipes.map.pipes import ShufflerIterDataPipe as Shuffler
from minitensor.utils.data.datapipes.map.pipes import ZipperMapDataPipe as Zipper

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
