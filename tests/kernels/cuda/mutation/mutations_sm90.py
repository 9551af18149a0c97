"""Mistakes one could make in the attention kernel for sm_90a; see mutations_sm80.py, which has those in what both share.

Not here, because nothing on the emulator tells: the turns of the groups (another order, the same sums), PinRegisters,
Opaque and setmaxnreg (the register allocator's), the fence after mbarriers were initialised, and one thread arriving for
its warp before the others are done with a wgmma (the emulator's warps finish together), and lanes of the producer that do not
meet after a wait (no schedule here leaves one behind there); nor, at the probe's head size of 64, the distance of V's slabs, of
which there is one: the tests have 128 and 256."""

PRODUCER = "hopper/producer.cuh"
CONSUMER = "hopper/consumer.cuh"
PRODUCTS = "hopper/products.cuh"
STAGES = "hopper/stages.cuh"
LIST = "hopper/work_list.cuh"
MEMORY = "hopper/memory_partials.cuh"
MAPS = "hopper/tensor_maps.h"

MUTATIONS = [
    # Waits of the consumers, and of the producer for them.
    ("no wait for Q", CONSUMER, "gpu::MbarrierWait(S::QueriesFull(), RingPlace<1>(queries_++).filled);", ";"),
    ("no wait for K", CONSUMER, "gpu::MbarrierWait(S::KeysFull(at.stage), at.filled);", ""),
    ("no wait for V", CONSUMER, "gpu::MbarrierWait(S::ValuesFull(at.stage), at.filled);", ""),
    ("no wait for the item", CONSUMER, "gpu::MbarrierWait(S::ItemFull(at.stage), at.filled);", ""),
    ("no wait for an empty K", PRODUCER, "Await(S::KeysEmpty(at.stage), at.emptied);", ""),
    ("no wait for an empty V", PRODUCER, "Await(S::ValuesEmpty(at.stage), at.emptied);", ""),
    ("no wait for an empty Q", PRODUCER, "Await(S::QueriesEmpty(), RingPlace<1>(queries_++).emptied);", ""),
    ("no wait for an empty slot", PRODUCER, "Await(S::ItemEmpty(at.stage), at.emptied);\n    if", "if"),
    ("parity of full and empty mixed up", STAGES, "emptied(filled ^ 1)", "emptied(filled)"),
    ("parity counts stages, not rounds", STAGES, "filled(n / kStages % 2)", "filled(n % 2)"),
    ("stages never go round", STAGES, "stage(static_cast<int>(n % kStages))", "stage(static_cast<int>(n & 0))"),
    ("empty counts threads, not warps", STAGES, "i % 2 == 0 ? 1 : C::kRowWarps", "i % 2 == 0 ? 1 : C::kRowThreads"),
    ("empty after one group", STAGES, "i % 2 == 0 ? 1 : C::kRowWarps", "i % 2 == 0 ? 1 : C::kRowWarps / 2"),
    # Releases.
    ("K released before it was read", CONSUMER, "      gpu::WgmmaWait<1>();\n      gpu::PinRegisters(s);\n      ReleaseKeys(tiles_, tile + C::kTileKeys >= item->rows.keys_end);",
     "      ReleaseKeys(tiles_, tile + C::kTileKeys >= item->rows.keys_end);\n      gpu::WgmmaWait<1>();\n      gpu::PinRegisters(s);"),
    ("V released before it was read", CONSUMER, "      gpu::WgmmaWait<0>();\n      gpu::PinRegisters(partials->o[0]);\n      if (tile > begin) ReleaseValues(tiles_ - 1, tile - C::kTileKeys, item);",
     "      if (tile > begin) ReleaseValues(tiles_ - 1, tile - C::kTileKeys, item);\n      gpu::WgmmaWait<0>();\n      gpu::PinRegisters(partials->o[0]);"),
    ("Q released after every tile", CONSUMER, "if (last) Release(S::QueriesEmpty());", "Release(S::QueriesEmpty());"),
    ("Q never released", CONSUMER, "if (last) Release(S::QueriesEmpty());", ""),
    ("V of the wrong stage released", CONSUMER, "ReleaseValues(tiles_ - 1, tile - C::kTileKeys, item);", "ReleaseValues(tiles_, tile - C::kTileKeys, item);"),
    ("item released before it is done", CONSUMER, "      Notes<C>::Write(args_, place.number(), Attend(place));\n      Release(S::ItemEmpty(at.stage));",
     "      Release(S::ItemEmpty(at.stage));\n      Notes<C>::Write(args_, place.number(), Attend(place));"),
    ("a turn not passed on", CONSUMER, "      StartValues(tiles_ - 1, p, &partials->o[0]);\n      PassTurn();", "      StartValues(tiles_ - 1, p, &partials->o[0]);"),
    # wgmma.
    ("scores read while they are computed", CONSUMER, "gpu::WgmmaWait<1>();", ""),
    ("waits for one group too few", CONSUMER, "gpu::WgmmaWait<1>();", "gpu::WgmmaWait<2>();"),
    ("no empty group before the first tile", CONSUMER, "    gpu::WgmmaCommit();  // an empty group in the place of the values of a tile before the first\n", ""),
    ("o rescaled while values are summed", CONSUMER, "      gpu::WgmmaWait<0>();\n      gpu::PinRegisters(partials->o[0]);\n      if (tile > begin) ReleaseValues(tiles_ - 1, tile - C::kTileKeys, item);\n      partials->Rescale(0, rescale);",
     "      partials->Rescale(0, rescale);\n      gpu::WgmmaWait<0>();\n      gpu::PinRegisters(partials->o[0]);\n      if (tile > begin) ReleaseValues(tiles_ - 1, tile - C::kTileKeys, item);"),
    ("probabilities packed while the tensor core reads them", CONSUMER, "      AddScores(tile, *item, s, rescale, partials);\n      gpu::WgmmaWait<0>();",
     "      AddScores(tile, *item, s, rescale, partials);\n      P::Pack(s, p);\n      gpu::WgmmaWait<0>();"),
    ("no fence before scores", CONSUMER, "    gpu::WgmmaFence();\n    P::Scores", "    P::Scores"),
    ("last values not waited for", CONSUMER, "    gpu::WgmmaWait<0>();\n    gpu::PinRegisters(partials->o[0]);\n    ReleaseValues(tiles_ - 1, (end", "    ReleaseValues(tiles_ - 1, (end"),
    ("Q of the other group", CONSUMER, "S::Queries(group_)", "S::Queries(1 - group_)"),
    ("scores pile up", PRODUCTS, "step > 0)", "true)"),
    ("only the last step's scores", PRODUCTS, "step > 0)", "false)"),
    ("half the lines of a step of V", PRODUCTS, "b.At(step * kDepth * kLineBytes)", "b.At(step * kDepth * kLineBytes / 2)"),
    ("a step of K too wide", PRODUCTS, "step * kDepth % kLineElements * 2;", "step * kDepth % kLineElements * 4 % kLineBytes;"),
    ("P registers in rows first", PRODUCTS, "&s[2 * step + j / 2][j % 2 * 2]", "&s[2 * step + j % 2][j / 2 * 2]"),
    ("no swizzle in descriptors", PRODUCTS, "kSwizzle128 << 30", "0u << 30"),
    # Copies.
    ("one byte count for cut tiles too", PRODUCER, "gpu::MbarrierArriveExpect(full, expected);", "gpu::MbarrierArriveExpect(full, S::kTileBytes);"),
    ("half the bytes of Q", PRODUCER, "C::kGroups * S::kGroupQueryBytes", "S::kGroupQueryBytes"),
    ("proxy fence before the copies have landed", PRODUCER, "      gpu::WaitCopies<0>();\n      gpu::FenceProxyAsync();", "      gpu::FenceProxyAsync();\n      gpu::WaitCopies<0>();"),
    ("no proxy fence after copies by hand", PRODUCER, "      gpu::FenceProxyAsync();", "      //"),
    ("copies by hand not swizzled", PRODUCER, "(chunk ^ (row & 7)) * 16", "chunk * 16"),
    ("unseen keys copied", PRODUCER, "key >= keys_begin_ && key < keys_end_);", "true);"),
    ("the end of the keys by TMA", PRODUCER, "half >= keys_begin_ && half + C::kHalfKeys <= keys_end_;", "half >= keys_begin_;"),
    ("the second half over the first", PRODUCER, "LoadHalf(tensor, half, to + i * S::kHalfLines, full);", "LoadHalf(tensor, half, to, full);"),
    ("rows of Q of one group twice", PRODUCER, "first_row + group * C::kGroupRows", "first_row"),
    ("wrong KV head", PRODUCER, "work.head / (args_.q_heads / args_.kv_heads)", "work.head % args_.kv_heads"),
    ("address cut to its MiB", PRODUCER, "static_cast<int>(units >> kMapUnitsLog2)", "static_cast<int>(units >> kMapUnitsLog2) & 0xff"),
    ("rows of keys side by side", MAPS, "static_cast<uint64_t>(row_stride) * 2, kMapUnitBytes", "static_cast<uint64_t>(head_dim) * 2, kMapUnitBytes"),
    ("a page asked for that no row sees", PRODUCER, "any ? RowsAt(tensor, half) : static_cast<const uint16_t*>(tensor)", "RowsAt(tensor, half)"),
    # Items, notes and nodes.
    ("spoilt rows left as they are", LIST, "again_ = true;", "return false;"),
    ("notes of half the warps", LIST, "for (int warp = 0; warp < C::kRowWarps; ++warp)", "for (int warp = 4; warp < C::kRowWarps; ++warp)"),
    ("one spoilt row done again", LIST, "if (again_ && first_row + 1 < end_) {", "if (false) {"),
    ("half of V looked at", CONSUMER, "at < S::kTileBytes;", "at < S::kTileBytes / 4;"),
    ("the other group's edges", CONSUMER, "edges(rows, group * C::kGroupRows, (group + 1) * C::kGroupRows - 1)", "edges(rows, C::kGroupRows, C::kRows - 1)"),
    ("sums of the wrong node merged", MEMORY, "this->Pending(slot + 1)", "this->Pending(slot)"),
    ("merged node not brought back", MEMORY, "if (last) Reload(slots - merges);", ""),
    ("m and l of the merged node lost", MEMORY, "gpu::StoreVolatile(at, {rows.m[0], rows.l[0], rows.m[1], rows.l[1]});", ""),
]
