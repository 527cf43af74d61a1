"""A program for one machine as PyTorch's users write it, by PyTorch's names: ranks of the launcher, a sampler, a
checkpoint that rank 0 writes and all read. It prints the loss of the last step and what the ranks agree on.
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.elastic.multiprocessing.errors import record
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.net1, self.relu, self.net2 = nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 5)

    def forward(self, x):
        return self.net2(self.relu(self.net1(x)))


class Trainer:
    def __init__(self, data, path):
        self.rank, self.path = int(os.environ["LOCAL_RANK"]), path
        torch.manual_seed(0)
        self.model = DDP(Network(), find_unused_parameters=False)
        self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), torch.optim.Adam, lr=1e-2)
        self.data = DataLoader(data, batch_size=8, shuffle=False, sampler=DistributedSampler(data))

    def epoch(self, number):
        self.data.sampler.set_epoch(number)
        for x, y in self.data:
            self.optimizer.zero_grad()
            loss = nn.functional.mse_loss(self.model(x), y)
            loss.backward()
            self.optimizer.step()
        return loss

    def save(self):
        if dist.get_rank() == 0:
            torch.save(self.model.module.state_dict(), self.path)
        dist.barrier()
        return torch.load(self.path, map_location="cpu", weights_only=True)


@record
def main(path):
    dist.init_process_group(backend="gloo")
    torch.manual_seed(1)
    trainer = Trainer(TensorDataset(torch.randn(50, 10), torch.randn(50, 5)), path)
    for number in range(2):
        loss = trainer.epoch(number)
    kept = trainer.save()
    same = all(torch.equal(kept[name], value) for name, value in trainer.model.module.state_dict().items())
    results = [None] * dist.get_world_size()
    dist.all_gather_object(results, (dist.get_rank(), same))
    if dist.get_rank() == 0:
        print(f"{loss.item():.6f} {results}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1])
