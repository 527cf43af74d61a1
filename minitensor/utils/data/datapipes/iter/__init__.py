"""Pipes of samples one after the other."""

from minitensor.utils.data.datapipes.iter.callable import CollatorIterDataPipe as Collator
from minitensor.utils.data.datapipes.iter.callable import FilterIterDataPipe as Filter
from minitensor.utils.data.datapipes.iter.callable import MapperIterDataPipe as Mapper
from minitensor.utils.data.datapipes.iter.combinatorics import SamplerIterDataPipe as Sampler
from minitensor.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe as Shuffler
from minitensor.utils.data.datapipes.iter.combining import ConcaterIterDataPipe as Concater
from minitensor.utils.data.datapipes.iter.combining import MultiplexerIterDataPipe as Multiplexer
from minitensor.utils.data.datapipes.iter.combining import ZipperIterDataPipe as Zipper
from minitensor.utils.data.datapipes.iter.files import FileListerIterDataPipe as FileLister
from minitensor.utils.data.datapipes.iter.files import FileOpenerIterDataPipe as FileOpener
from minitensor.utils.data.datapipes.iter.files import IterableWrapperIterDataPipe as IterableWrapper
from minitensor.utils.data.datapipes.iter.files import StreamReaderIterDataPipe as StreamReader
from minitensor.utils.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher
from minitensor.utils.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from minitensor.utils.data.datapipes.iter.grouping import UnBatcherIterDataPipe as UnBatcher
from minitensor.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter
from minitensor.utils.data.datapipes.iter.splitting import DemultiplexerIterDataPipe as Demultiplexer
from minitensor.utils.data.datapipes.iter.splitting import ForkerIterDataPipe as Forker

__all__ = [
    "Batcher", "Collator", "Concater", "Demultiplexer", "FileLister", "FileOpener", "Filter", "Forker", "Grouper",
    "IterableWrapper", "Mapper", "Multiplexer", "Sampler", "ShardingFilter", "Shuffler", "StreamReader", "UnBatcher",
    "Zipper",
]  # fmt: skip
