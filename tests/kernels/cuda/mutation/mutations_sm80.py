"""Mistakes one could make in the attention kernels for sm_80. Each is (what, file, text, replacement); the text occurs in the
file, and its first occurrence is replaced. run.py compiles and runs each; all must be found.

Not here, because the bits are the same: the sides of a merge swapped (weights are powers of two, so products are exact),
the identity merged like any other (its weight is 0), and the barrier after a tile of rows left out (what the next rows
overwrite was read before the barrier in front of V). Nor what CTAs do to each other: the emulator runs them in turn."""

TILE = "attend_tile.cuh"
ROWS = "row_partials.cuh"
BLOCK = "decode_block.cuh"
FOLD = "fold_blocks.cuh"

MUTATIONS = [
    # Waits and barriers.
    ("no wait for K", TILE, "gpu::WaitCopies<0>();\n    gpu::CtaSync();  // K is here", "gpu::CtaSync();  // K is here"),
    ("no wait for V", TILE, "gpu::WaitCopies<0>();\n    bool row_by_row", "bool row_by_row"),
    ("no barrier before K is read", TILE, "gpu::CtaSync();  // K is here", "// K is here"),
    ("no barrier before V is read", TILE, "    } else {\n      gpu::CtaSync();\n    }", "    }"),
    ("next K loaded before the barrier", TILE, "    bool row_by_row = false;\n    // V is here",
     "    if (tile_begin + kKeyTile < rows_.keys_end) LoadKeys(tile_begin + kKeyTile);\n    bool row_by_row = false;\n    // V is here"),
    ("a thread returns before a barrier", TILE, "    bool row_by_row = false;\n    FoldBlocks",
     "    if (gpu::ThreadIndex() == 5) return true;\n    bool row_by_row = false;\n    FoldBlocks"),
    ("a warp skips a barrier", TILE, "    gpu::CtaSync();  // K is here",
     "    if (gpu::ThreadIndex() / 32 != 2) gpu::CtaSync();  // K is here"),
    ("decode: no wait for the stage", BLOCK, "gpu::WaitCopies<C::kStages - 2>();", ""),
    ("decode: waits for one stage too few", BLOCK, "gpu::WaitCopies<C::kStages - 2>();", "gpu::WaitCopies<C::kStages - 1>();"),
    ("decode: no barrier before maxima are read", BLOCK, "    gpu::CtaSync();\n    RONDO_UNROLL\n    for (int half = 0; half < 2; ++half) {\n      float largest",
     "    RONDO_UNROLL\n    for (int half = 0; half < 2; ++half) {\n      float largest"),
    ("decode: no barrier before probabilities are read", BLOCK, "    gpu::CtaSync();\n  }\n\n  // l and the warp", "  }\n\n  // l and the warp"),
    ("decode: loads into the stage in use", BLOCK, "stage > 0 ? stage - 1 : C::kStages - 1", "stage"),
    # Layouts.
    ("no swizzle", "shared_rows.cuh", "chunk ^ (row & 7)", "chunk"),
    ("swizzle of four rows", "shared_rows.cuh", "chunk ^ (row & 7)", "chunk ^ (row & 3)"),
    ("V not transposed", "values_product.cuh", "gpu::LoadMatrix4Transposed(v,", "gpu::LoadMatrix4(v,"),
    ("K halves swapped", TILE, "[2 * pair], q[i], k[0], k[1]", "[2 * pair], q[i], k[0], k[2]"),
    ("P registers swapped", "values_product.cuh", "a[1] = gpu::Pack<Element>(p[2 * step][2]", "a[2] = gpu::Pack<Element>(p[2 * step][2]"),
    ("P pair reversed", "values_product.cuh", "(p[2 * step][0], p[2 * step][1])", "(p[2 * step][1], p[2 * step][0])"),
    ("Q of the wrong warp", TILE, "TileRow(i) + lane % 16, 2 * step", "lane % 16, 2 * step"),
    ("decode: columns of the wrong warp", BLOCK, "const int pair = i * C::kWarps + Warp();\n        if (D / 16 % C::kWarps != 0 && pair >= D / 16) break;\n        uint32_t v[4];",
     "const int pair = i * C::kWarps + (Warp() ^ 1);\n        uint32_t v[4];"),
    ("shared memory too small", TILE, "ValueRows::Bytes(kKeyTile);", "ValueRows::Bytes(kKeyTile) - 1024;"),
    # Masks.
    ("causal one key short", "masks.cuh", "Least(mask.visible_end, position + 1)", "Least(mask.visible_end, position)"),
    ("causal one key too many", "masks.cuh", "Least(mask.visible_end, position + 1)", "Least(mask.visible_end, position + 2)"),
    ("window one key too many", "masks.cuh", "position - mask.window + 1)", "position - mask.window)"),
    ("window to the right one key too many", "masks.cuh", "position + mask.window)", "position + mask.window + 1)"),
    ("interval includes its end", "masks.cuh", "key < end", "key <= end"),
    ("edges not masked", TILE, "if (edge)", "if (false)"),
    ("last row's edge forgotten", "row_span.cuh", "begin < last_row_begin || end > first_row_end", "end > first_row_end"),
    ("unseen keys loaded", TILE, "rows_.keys_begin - tile_begin,\n                                                        rows_.keys_end - tile_begin, SharedV());", "0, kKeyTile, SharedV());"),
    ("rows past the end loaded", TILE, "query.row_stride, 0, place_.valid_rows(), SharedQ()", "query.row_stride, 0, C::kRows, SharedQ()"),
    ("values that are not finite unnoticed", "values_check.cuh", "== kHigh;", "== 0;\n      any = false;"),
    # Softmax.
    ("maximum of half the quad", "scores.cuh", "return gpu::Max(x, gpu::ShuffleXor(x, 2));", "return x;"),
    ("sum of half the quad", "scores.cuh", "return x + gpu::ShuffleXor(x, 2);", "return x;"),
    ("maximum of the first column alone", "scores.cuh", "gpu::Max(s[tile][2 * half], s[tile][2 * half + 1])", "s[tile][2 * half]"),
    ("maximum not an integer", "scores.cuh", "gpu::Max(m, gpu::Ceil(largest * factor))", "gpu::Max(m, largest * factor)"),
    ("o not rescaled", ROWS, "o[i][n][j] *= rescale[j / 2];", ";"),
    ("o rescaled as the other row", ROWS, "o[i][n][j] *= rescale[j / 2];", "o[i][n][j] *= rescale[j % 2];"),
    ("l not rescaled", "scores.cuh", "gpu::Fma(l, rescale,", "gpu::Fma(l, 1.0f,"),
    ("l in another order", ROWS, "l = RaisedSum(l, tile == 0 ? rescale[half] : 1.0f, groups);",
     "l = gpu::Fma(l, rescale[half], ((groups[0] + groups[1]) + groups[2]) + groups[3]);"),
    ("soft cap without its scale", "scores.cuh", "args.scale / args.softcap", "1.0f / args.softcap"),
    ("ALiBi sign", "scores.cuh", "gpu::Fma(-slope[half]", "gpu::Fma(slope[half]"),
    # The tree.
    ("merge without weights", "softmax.cuh", "left_weight = PowerOfTwo(left_m - m);", "left_weight = 1.0f;"),
    ("left to right instead of the tree", "tree_fold.cuh", "const int level = gpu::CountTrailingZeros(~static_cast<uint64_t>(block));", "const int level = 31;"),
    ("a level too few", "tree_fold.cuh", "~static_cast<uint64_t>(block)", "~static_cast<uint64_t>(block / 2)"),
    ("sums not cleared after a block", FOLD, "if (!last) partials->Clear();", ""),
    ("nodes too large", "tree_fold.cuh", "by_alignment < by_length ? by_alignment : by_length", "by_length"),
    ("last node not stored", FOLD, "more = node.end() < blocks;", "more = node.end() + 1 < blocks;"),
    ("fold: spans of the wrong alignment", "fold_leaves.cuh", "first / (2 * span) * (2 * span); left + span < last", "first; left + span < last"),
    ("fold: result not put back", "fold_leaves.cuh", "        Put(Greatest(left, first), result);", ""),
    # The end.
    ("sink ignored", "softmax.cuh", "if (sink != nullptr) {", "if (false) {"),
    ("lse in units of log2", "softmax.cuh", "(m + gpu::Log2(l)) * kLn2", "m + gpu::Log2(l)"),
    ("rows past the end written", ROWS, "if (row < place_.valid_rows()) f(", "f("),
    # Heads and items.
    ("wrong KV head", TILE, "place_.head() / (args_.q_heads / args_.kv_heads)", "place_.head() % args_.kv_heads"),
    ("a round of items lost", "row_items.cuh", "round % 2 == 0 ? gpu::CtaIndex() : gpu::CtaCount() - 1 - gpu::CtaIndex()", "gpu::CtaIndex() * 2"),
    ("decode: heads and tokens swapped", BLOCK, "{packed / group_, kv_head_ * group_ + packed % group_}", "{packed % group_, kv_head_ * group_ + packed / group_}"),
    ("page table ignored", "masks.cuh", "gpu::Load(keys.page_offsets + page)", "gpu::Load(keys.page_offsets)"),
    ("decode: sequence search off by one", "sequences.cuh", "if (begin(middle) <= index) {", "if (begin(middle) < index) {"),
]
