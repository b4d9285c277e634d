/* Products of rows in integers of 8 bits with weights in q8 and q4: see struct integer_products.
 *
 * Sixteen rows of weights are packed at a time, so that a lane has a row of them, and meets the
 * same pair of elements in every lane: a block's sum is whole in its lane.  Pairs are in 16 bits,
 * because instructions that multiply bytes saturate, or need as many others. */

/* Rows of weights that are packed together, and of activations that meet them in registers and from
 * the cache. */
enum { PACKED_ROWS = 16, PACKED_VECTORS = PACKED_ROWS / LANES };
enum { MOST_INTEGER_ROWS = LANES == 16 ? 8 : 4, CACHED_INTEGER_ROWS = 64 };

/* Elements are in pairs: of the 32 elements from a multiple of 32 on, pair i < 8 has elements 4 i
 * and 4 i + 2, pair 8 + i the two after them.  So four bytes in a lane become two pairs at once. */
enum { PAIRS_BLOCK = TILE_BLOCK, PAIRS_ODD = PAIRS_BLOCK / 2 };

/* A block's part of sixteen rows of weights: pair l of row r at 32 l + 2 r. */
typedef int16_t packed_block[Q8_BLOCK * PACKED_ROWS];

static inline void store_pairs(ivec bytes, int16_t *even, int16_t *odd) {
    typedef int16_t words __attribute__((vector_size(LANES * 4)));
    const words low = (words)((uvec)bytes << 8) >> 8, high = (words)bytes >> 8;
    memcpy(even, &low, sizeof low);
    memcpy(odd, &high, sizeof high);
}

/* Stores elements 4 i to 4 i + 3 of a block of LANES rows of weights. */
static inline void store_packed(ivec bytes, size_t i, int16_t *out) {
    int16_t *even = out + (i / 8 * PAIRS_BLOCK / 2 + i % 8) * 2 * PACKED_ROWS;
    store_pairs(bytes, even, even + PAIRS_ODD * PACKED_ROWS);
}

/* ---- Activations -------------------------------------------------------------------------- */

/* Puts elements in pairs, and adds them up. */
static inline void round_pairs(const int8_t *bytes, int16_t *out, int16_t *total) {
    int sum = 0;
    for (size_t i = 0; i < PAIRS_BLOCK; i++)
        sum += bytes[i];
    *total = (int16_t)sum;
    for (size_t i = 0; i < PAIRS_BLOCK / 4; i++) {
        out[2 * i] = bytes[4 * i];
        out[2 * i + 1] = bytes[4 * i + 2];
        out[2 * i + PAIRS_ODD] = bytes[4 * i + 1];
        out[2 * i + 1 + PAIRS_ODD] = bytes[4 * i + 3];
    }
}

static void round_integers(size_t m, size_t k, const float *x, size_t ldx,
                           struct integer_block *out) {
    for (; m > 0; m--, x += ldx) {
        for (size_t i = 0; i < k; i += Q8_BLOCK, out++) {
            const size_t n = k - i < Q8_BLOCK ? k - i : Q8_BLOCK;
            int8_t bytes[Q8_BLOCK] = {0};
            out->scale = narrow_i8(x + i, n, bytes);
            for (size_t j = 0; j < Q8_BLOCK; j += PAIRS_BLOCK)
                round_pairs(bytes + j, out->x + j, &out->sum[j / PAIRS_BLOCK]);
        }
    }
}

/* ---- Sums --------------------------------------------------------------------------------- */

/* The sums of `pairs` pairs of elements, from element `first` of the activations' block on, for
 * `rows` rows of activations and sixteen of weights. */
static inline __attribute__((always_inline)) void
integer_sums(const int rows, const size_t pairs, const struct integer_block *a, size_t lda,
             size_t first, const int16_t *b, ivec sum[MOST_INTEGER_ROWS][PACKED_VECTORS]) {
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < PACKED_VECTORS; v++)
        sum[r][v] = (ivec){0};
    for (size_t l = 0; l < pairs; l++, b += 2 * PACKED_ROWS) {
        ivec16 y[PACKED_VECTORS];
        UNROLL for (int v = 0; v < PACKED_VECTORS; v++)
            memcpy(&y[v], b + v * 2 * LANES, sizeof y[v]);
        UNROLL for (int r = 0; r < rows; r++) {
            float pair; /* two integers */
            memcpy(&pair, a[(size_t)r * lda].x + first + 2 * l, sizeof pair);
            const ivec16 x = (ivec16)splat(pair);
            UNROLL for (int v = 0; v < PACKED_VECTORS; v++) sum[r][v] += pair_products(x, y[v]);
        }
    }
}

/* What the sums are multiplied by for each of sixteen rows of weights. */
struct integer_scales {
    float scale[PACKED_ROWS], minimum[PACKED_ROWS]; /* minimum: of q4 alone */
};

/* Adds what a block gives to total[rows, 16].  In q4 a block has half as many elements, and begins
 * with element `first` of the activations' block. */
static inline __attribute__((always_inline)) void
add_integers(const bool q4, const int rows, const struct integer_block *a, size_t lda, size_t first,
             const int16_t *b, const struct integer_scales *s, float *total) {
    ivec sum[MOST_INTEGER_ROWS][PACKED_VECTORS];
    integer_sums(rows, (q4 ? TILE_BLOCK : Q8_BLOCK) / 2, a, lda, first, b, sum);
    UNROLL for (int r = 0; r < rows; r++) {
        const struct integer_block *x = a + (size_t)r * lda;
        UNROLL for (int v = 0; v < PACKED_VECTORS; v++) {
            const vec integer = __builtin_convertvector(sum[r][v], vec),
                      scale = load_f32(s->scale + v * LANES);
            float *at = total + r * PACKED_ROWS + v * LANES;
            vec part;
            if (q4)
                part = (integer * scale - splat((float)x->sum[first / TILE_BLOCK]) *
                                              load_f32(s->minimum + v * LANES)) *
                       splat(x->scale);
            else
                part = integer * (scale * splat(x->scale));
            store_f32(at, load_f32(at) + part);
        }
    }
}

/* The same for m rows. */
static inline __attribute__((always_inline)) void
add_block(const bool q4, size_t m, const struct integer_block *a, size_t lda, size_t first,
          const int16_t *b, const struct integer_scales *s, float *total) {
    size_t r = 0;
    for (; r + MOST_INTEGER_ROWS <= m; r += MOST_INTEGER_ROWS)
        add_integers(q4, MOST_INTEGER_ROWS, a + r * lda, lda, first, b, s, total + r * PACKED_ROWS);
    for (; r + 2 <= m; r += 2)
        add_integers(q4, 2, a + r * lda, lda, first, b, s, total + r * PACKED_ROWS);
    if (r < m)
        add_integers(q4, 1, a + r * lda, lda, first, b, s, total + r * PACKED_ROWS);
}

/* C[m, n] = the totals of n rows of weights. */
static inline void store_totals(size_t m, const float *total, size_t n, float *c, size_t ldc) {
    for (size_t t = 0; t < m; t++, c += ldc, total += PACKED_ROWS)
        if (n == PACKED_ROWS)
            memcpy(c, total, PACKED_ROWS * sizeof *c);
        else
            memcpy(c, total, n * sizeof *c);
}

/* ---- q8 ----------------------------------------------------------------------------------- */

/* Packs a block of sixteen rows, which are `stride` bytes from each other. */
static inline void pack_q8(const int8_t *b, size_t stride, packed_block out) {
    for (size_t row = 0; row < PACKED_ROWS; row += LANES) {
        for (size_t i = 0; i < Q8_BLOCK; i += sizeof(vec)) {
            vec part[LANES];
            UNROLL for (size_t r = 0; r < LANES; r++)
                memcpy(&part[r], b + (row + r) * stride + i, sizeof(vec));
            transpose(part);
            UNROLL for (size_t j = 0; j < LANES; j++)
                store_packed((ivec)part[j], i / 4 + j, out + 2 * row);
        }
    }
}

/* The same of n rows and `columns` columns, zeros beyond them. */
static void pack_q8_edge(const int8_t *b, size_t stride, size_t n, size_t columns,
                         packed_block out) {
    int8_t whole[PACKED_ROWS * Q8_BLOCK] = {0};
    for (size_t r = 0; r < n; r++)
        memcpy(whole + r * Q8_BLOCK, b + r * stride, columns);
    pack_q8(whole, Q8_BLOCK, out);
}

static void integers_q8(size_t m, const struct integer_block *a, size_t n, size_t k,
                        const int8_t *b, const float *scale, float *c, size_t ldc) {
    const size_t blocks = q8_blocks(k), rows = n < PACKED_ROWS ? n : PACKED_ROWS;
    float total[CACHED_INTEGER_ROWS * PACKED_ROWS];
    memset(total, 0, m * PACKED_ROWS * sizeof *total);
    for (size_t i = 0, left = k; i < blocks; i++, b += Q8_BLOCK, left -= Q8_BLOCK) {
        struct integer_scales s;
        packed_block packed;
        for (size_t r = 0; r < rows; r++) /* of the next sixteen */
            __builtin_prefetch(b + (PACKED_ROWS + r) * k);
        if (rows == PACKED_ROWS && left >= Q8_BLOCK)
            pack_q8(b, k, packed);
        else
            pack_q8_edge(b, k, rows, left < Q8_BLOCK ? left : Q8_BLOCK, packed);
        for (size_t r = 0; r < PACKED_ROWS; r++)
            s.scale[r] = r < rows ? scale[r * blocks + i] : 0;
        add_block(false, m, a + i, blocks, 0, packed, &s, total);
    }
    store_totals(m, total, rows, c, ldc);
}

static void integer_product_q8(size_t m, const struct integer_block *a, size_t n, size_t k,
                               const int8_t *b, const float *scale, float *c, size_t ldc) {
    const size_t blocks = q8_blocks(k), most = CACHED_INTEGER_ROWS;
    for (size_t t = 0; t < m; t += most)
        for (size_t j = 0; j < n; j += PACKED_ROWS)
            integers_q8(m - t < most ? m - t : most, a + t * blocks, n - j, k, b + j * k,
                        scale + j * blocks, c + t * ldc + j, ldc);
}

/* ---- q4 ----------------------------------------------------------------------------------- */

/* Packs a block of a tile.  A line has columns 4 l to 4 l + 3, and those 16 further on. */
static inline void pack_q4(const uint8_t *tile, size_t block, packed_block out) {
    for (int l = 0; l < TILE_BLOCK_LINES; l++) {
        for (size_t p = 0; p < PACKED_VECTORS; p++) {
            ivec level[2];
            load_levels(Q4_TOP, tile, block, p, l, level);
            for (size_t half = 0; half < 2; half++)
                store_packed(level[half], (size_t)l + 4 * half, out + p * 2 * LANES);
        }
    }
}

/* Rows [first, end) of those that a row of tiles has, `factors` being the first tile row's. */
static void integers_q4(size_t m, const struct integer_block *a, size_t across, const uint8_t *tile,
                        const float *factors, size_t first, size_t end, float *c, size_t ldc) {
    float total[CACHED_INTEGER_ROWS * PACKED_ROWS];
    memset(total, 0, m * PACKED_ROWS * sizeof *total);
    for (size_t i = 0; i < across; i++, tile += tile_bytes(Q4_TOP)) {
        for (size_t block = 0; block < TILE_BLOCKS; block++) {
            const uint8_t *code = tile + 2 * block * TILE_HEIGHT;
            struct integer_scales s = {{0}, {0}};
            packed_block packed;
            pack_q4(tile, block, packed);
            for (size_t r = first; r < end; r++) {
                s.scale[r] = (float)code[r] * factors[2 * r];
                s.minimum[r] = (float)code[TILE_HEIGHT + r] * factors[2 * r + 1];
            }
            add_block(true, m, a + i, across, block * TILE_BLOCK, packed, &s, total);
        }
    }
    store_totals(m, total + first, end - first, c, ldc);
}

static void integer_product_q4(size_t m, const struct integer_block *a, const struct tile_rows *b,
                               float *c, size_t ldc) {
    const size_t across = tiles_across(b->n_col), most = CACHED_INTEGER_ROWS,
                 last = b->skip + b->n_row;
    for (size_t t = 0; t < m; t += most) {
        for (size_t low = 0; low < last; low += TILE_HEIGHT) {
            const size_t first = low < b->skip ? b->skip : low,
                         end = last - low < TILE_HEIGHT ? last : low + TILE_HEIGHT;
            integers_q4(m - t < most ? m - t : most, a + t * across, across,
                        b->tile + low / TILE_HEIGHT * tile_row_bytes(Q4_TOP, b->n_col),
                        b->factors + 2 * low, first - low, end - low,
                        c + t * ldc + (first - b->skip), ldc);
        }
    }
}

static const struct integer_products integer_products = {
    .round = round_integers, .q8 = integer_product_q8, .q4 = integer_product_q4};
