/* Products of rows in integers of 8 bits with weights in q8 and q4: see struct integer_products.
 *
 * Several rows of weights are packed at a time, so that a lane has a row of them, and meets the
 * same four elements in every lane: a block's sum is whole in its lane.  Weights in q8 are packed
 * with OFFSET added, since instructions multiply unsigned bytes by signed ones. */

/* Rows of weights that are packed together: as many as let registers be used more often than they
 * are loaded, and of q4 a tile's.  Rows of activations that meet them in registers and from the
 * cache. */
enum { Q8_ROWS = LANES == 16 ? 32 : 16, Q4_ROWS = TILE_HEIGHT, MOST_PACKED_ROWS = Q8_ROWS };
enum { MOST_PACKED_VECTORS = MOST_PACKED_ROWS / LANES };
enum { MOST_INTEGER_ROWS = LANES == 16 ? 8 : 4, CACHED_INTEGER_ROWS = 64 };
enum { OFFSET = 128 };

static inline size_t packed_rows(const bool q4) {
    return q4 ? Q4_ROWS : Q8_ROWS;
}

static inline int packed_vectors(const bool q4) {
    return (int)packed_rows(q4) / LANES;
}

/* A packed block has the part of R rows of weights in it, elements 4 i to 4 i + 3 of row r at
 * 4 R i + 4 r, then what a block's sums are multiplied by for each row, of q4 the minima too. */
enum { QUAD = 4 };

static inline size_t packed_columns(const bool q4) {
    return q4 ? TILE_BLOCK : Q8_BLOCK;
}

static inline size_t packed_elements(const bool q4) {
    return packed_columns(q4) * packed_rows(q4);
}

static inline size_t packed_bytes(const bool q4) {
    return packed_elements(q4) + (q4 ? 2 : 1) * packed_rows(q4) * sizeof(float);
}

static inline float *packed_scale(const bool q4, uint8_t *block) {
    return (float *)(void *)(block + packed_elements(q4));
}

/* Blocks that meet all rows of activations from the first-level cache, and how many blocks ahead
 * they are prefetched. */
enum { PACKED_BLOCKS = 4, PACKED_AHEAD = 3 };

/* ---- Activations -------------------------------------------------------------------------- */

static void round_integers(size_t m, size_t k, const float *x, size_t ldx,
                           struct integer_block *out) {
    const ivec16 ones = (ivec16){0} + 1;
    for (; m > 0; m--, x += ldx) {
        for (size_t i = 0; i < k; i += Q8_BLOCK, out++) {
            if (k - i >= Q8_BLOCK) { /* with loops of a known length */
                out->scale = narrow_to(INTEGER_MOST, x + i, Q8_BLOCK, out->x);
            } else {
                memset(out->x, 0, sizeof out->x);
                out->scale = narrow_to(INTEGER_MOST, x + i, k - i, out->x);
            }
            for (size_t part = 0; part < Q8_BLOCK / TILE_BLOCK; part++) {
                ivec sum = {0};
                for (size_t j = 0; j < TILE_BLOCK; j += 2 * LANES)
                    sum += pair_products(load_ivec16(out->x + part * TILE_BLOCK + j), ones);
                out->sum[part] = (int16_t)sum_lanes(__builtin_convertvector(sum, vec));
            }
        }
    }
}

/* ---- Prefetching -------------------------------------------------------------------------- */

/* Lines that a step of MOST_INTEGER_ROWS rows prefetches with each four elements. */
enum { FETCH_LINE = 64, FETCH_LINES = LANES == 16 ? 3 : 1 };

/* The next `size` bytes to prefetch, or `otherwise` if there are no more. */
static inline const char *take_fetch(struct fetch *fetch, size_t size, const void *otherwise) {
    if (fetch->at >= fetch->end) {
        if (fetch->n == 0)
            return otherwise;
        fetch->at = fetch->part->begin;
        fetch->end = fetch->part->end;
        fetch->part++;
        fetch->n--;
    }
    const char *taken = fetch->at;
    fetch->at += size < (size_t)(fetch->end - taken) ? size : (size_t)(fetch->end - taken);
    return taken;
}

/* ---- Sums --------------------------------------------------------------------------------- */

/* The sums of a packed block, from element `first` of the activations' block on, for `rows` rows of
 * activations.  `ahead`: a later block is prefetched. */
static inline __attribute__((always_inline)) void
integer_sums(const bool q4, const int rows, const bool ahead, const struct integer_block *a,
             size_t lda, size_t first, const uint8_t *b, struct fetch *fetch,
             ivec sum[MOST_INTEGER_ROWS][MOST_PACKED_VECTORS]) {
    const int vectors = packed_vectors(q4);
    const size_t quads = packed_columns(q4) / QUAD, quad_bytes = QUAD * packed_rows(q4);
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) {
        const int16_t *sums = a[(size_t)r * lda].sum;
        sum[r][v] = (ivec){0} - (q4 ? 0 : OFFSET) * (sums[0] + sums[1]);
    }
    for (size_t at = 0; ahead && at < packed_bytes(q4); at += FETCH_LINE)
        __builtin_prefetch(b + PACKED_AHEAD * packed_bytes(q4) + at, 0, 2);
    const bool fetches = rows == MOST_INTEGER_ROWS;
    const char *later = fetches ? take_fetch(fetch, quads * FETCH_LINES * FETCH_LINE, a) : NULL;
    for (size_t i = 0; i < quads; i++, b += quad_bytes) {
        for (int line = 0; fetches && line < FETCH_LINES; line++, later += FETCH_LINE)
            __builtin_prefetch(later, 0, 2);
        ivec y[MOST_PACKED_VECTORS];
        UNROLL for (int v = 0; v < vectors; v++) memcpy(&y[v], b + v * QUAD * LANES, sizeof y[v]);
        UNROLL for (int r = 0; r < rows; r++) {
            float quad; /* four integers */
            memcpy(&quad, a[(size_t)r * lda].x + first + i * QUAD, sizeof quad);
            const ivec x = (ivec)splat(quad);
            UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = add_quads(sum[r][v], y[v], x);
        }
    }
}

/* Adds to total[rows, packed_rows(q4)] what n packed blocks give, of weights in q8 from the
 * beginning of a block of the activations on, in q4 from that of one of its halves. */
static inline __attribute__((always_inline)) void
add_rows(const bool q4, const int rows, const bool ahead, const struct integer_block *a, size_t lda,
         size_t n, const uint8_t *b, struct fetch *fetch, float *total) {
    const size_t halves = q4 ? Q8_BLOCK / TILE_BLOCK : 1;
    const int vectors = packed_vectors(q4);
    for (size_t i = 0; i < n; i++, b += packed_bytes(q4)) {
        const size_t half = i % halves;
        const struct integer_block *x = a + i / halves;
        const float *scales = (const float *)(const void *)(b + packed_elements(q4)),
                    *minima = scales + packed_rows(q4);
        ivec sum[MOST_INTEGER_ROWS][MOST_PACKED_VECTORS];
        integer_sums(q4, rows, ahead, x, lda, half * TILE_BLOCK, b, fetch, sum);
        UNROLL for (int r = 0; r < rows; r++) {
            const struct integer_block *y = x + (size_t)r * lda;
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec integer = __builtin_convertvector(sum[r][v], vec),
                          scale = load_f32(scales + v * LANES);
                float *at = total + (size_t)r * packed_rows(q4) + v * LANES;
                vec part;
                if (q4)
                    part = (integer * scale -
                            splat((float)y->sum[half]) * load_f32(minima + v * LANES)) *
                           splat(y->scale);
                else
                    part = integer * (scale * splat(y->scale));
                store_f32(at, load_f32(at) + part);
            }
        }
    }
}

/* The same for m rows; the first of them prefetch weights in q8, which are packed in memory. */
static inline __attribute__((always_inline)) void add_blocks(const bool q4, size_t m,
                                                             const struct integer_block *a,
                                                             size_t lda, size_t n, const uint8_t *b,
                                                             struct fetch *fetch, float *total) {
    enum { MOST = MOST_INTEGER_ROWS };
    const size_t wide = packed_rows(q4);
    size_t r = 0;
    for (; r + MOST <= m; r += MOST)
        if (r == 0)
            add_rows(q4, MOST, !q4, a, lda, n, b, fetch, total);
        else
            add_rows(q4, MOST, false, a + r * lda, lda, n, b, fetch, total + r * wide);
    for (; r + 2 <= m; r += 2)
        add_rows(q4, 2, !q4 && r == 0, a + r * lda, lda, n, b, fetch, total + r * wide);
    if (r < m)
        add_rows(q4, 1, !q4 && r == 0, a + r * lda, lda, n, b, fetch, total + r * wide);
}

/* C[m, n] = the totals of n rows of `packed`. */
static inline void store_totals(size_t m, const float *total, size_t packed, size_t n, float *c,
                                size_t ldc) {
    for (size_t t = 0; t < m; t++, c += ldc, total += packed)
        if (n == packed)
            memcpy(c, total, packed * sizeof *c);
        else
            memcpy(c, total, n * sizeof *c);
}

/* ---- q8 ----------------------------------------------------------------------------------- */

_Static_assert(INTEGER_PANEL % Q8_ROWS == 0, "a panel is whole");

/* Packs a block of Q8_ROWS rows, which are `stride` bytes from each other. */
static inline void pack_block(const int8_t *b, size_t stride, uint8_t *out) {
    for (size_t row = 0; row < Q8_ROWS; row += LANES) {
        for (size_t i = 0; i < Q8_BLOCK; i += sizeof(vec)) {
            vec part[LANES];
            UNROLL for (size_t r = 0; r < LANES; r++)
                memcpy(&part[r], b + (row + r) * stride + i, sizeof(vec));
            transpose(part);
            UNROLL for (size_t j = 0; j < LANES; j++) {
                const uvec bytes = (uvec)part[j] ^ OFFSET * 0x01010101u;
                memcpy(out + (i / QUAD + j) * QUAD * Q8_ROWS + QUAD * row, &bytes, sizeof bytes);
            }
        }
    }
}

/* The same of n rows and `columns` columns, zeros beyond them. */
static void pack_edge(const int8_t *b, size_t stride, size_t n, size_t columns, uint8_t *out) {
    int8_t whole[Q8_ROWS * Q8_BLOCK] = {0};
    for (size_t r = 0; r < n; r++)
        memcpy(whole + r * Q8_BLOCK, b + r * stride, columns);
    pack_block(whole, Q8_BLOCK, out);
}

/* Packs at most Q8_ROWS rows. */
static uint8_t *pack_rows(size_t n, size_t k, const int8_t *b, const float *scale, uint8_t *out) {
    const size_t blocks = q8_blocks(k);
    for (size_t i = 0; i < blocks; i++, b += Q8_BLOCK, out += packed_bytes(false)) {
        const size_t left = k - i * Q8_BLOCK, columns = left < Q8_BLOCK ? left : Q8_BLOCK;
        float *scales = packed_scale(false, out);
        if (n == Q8_ROWS && columns == Q8_BLOCK)
            pack_block(b, k, out);
        else
            pack_edge(b, k, n, columns, out);
        for (size_t r = 0; r < Q8_ROWS; r++)
            scales[r] = r < n ? scale[r * blocks + i] : 0;
    }
    return out;
}

static void pack_integers_q8(size_t n, size_t k, const int8_t *b, const float *scale,
                             void *packed) {
    uint8_t *out = packed;
    for (size_t j = 0; j < n; j += Q8_ROWS)
        out = pack_rows(n - j < Q8_ROWS ? n - j : Q8_ROWS, k, b + j * k, scale + j * q8_blocks(k),
                        out);
}

/* The first n rows of those that are packed together. */
static void integers_q8(size_t m, const struct integer_block *a, size_t n, size_t blocks,
                        const uint8_t *b, struct fetch *fetch, float *c, size_t ldc) {
    float total[CACHED_INTEGER_ROWS * Q8_ROWS];
    memset(total, 0, m * Q8_ROWS * sizeof *total);
    for (size_t i = 0; i < blocks; i += PACKED_BLOCKS)
        add_blocks(false, m, a + i, blocks, blocks - i < PACKED_BLOCKS ? blocks - i : PACKED_BLOCKS,
                   b + i * packed_bytes(false), fetch, total);
    store_totals(m, total, Q8_ROWS, n, c, ldc);
}

static void integer_product_q8(size_t m, const struct integer_block *a, size_t n, size_t k,
                               const void *packed, struct fetch *fetch, float *c, size_t ldc) {
    const size_t blocks = q8_blocks(k), most = CACHED_INTEGER_ROWS;
    for (size_t t = 0; t < m; t += most) {
        const uint8_t *b = packed;
        for (size_t j = 0; j < n; j += Q8_ROWS, b += blocks * packed_bytes(false))
            integers_q8(m - t < most ? m - t : most, a + t * blocks,
                        n - j < Q8_ROWS ? n - j : Q8_ROWS, blocks, b, fetch, c + t * ldc + j, ldc);
    }
}

/* ---- q4 ----------------------------------------------------------------------------------- */

/* Tiles whose blocks are packed at a time. */
enum { PACKED_TILES = PACKED_BLOCKS / TILE_BLOCKS };

/* Packs a block of a tile.  A line has columns 4 l to 4 l + 3, and those 16 further on. */
static inline void pack_levels(const uint8_t *tile, size_t block, uint8_t *out) {
    for (int l = 0; l < TILE_BLOCK_LINES; l++) {
        for (int p = 0; p < packed_vectors(true); p++) {
            ivec level[2];
            load_levels(Q4_TOP, tile, block, (size_t)p, l, level);
            for (size_t half = 0; half < 2; half++) /* columns 16 further on */
                memcpy(out + ((size_t)l + 4 * half) * QUAD * Q4_ROWS + (size_t)p * QUAD * LANES,
                       &level[half], sizeof level[half]);
        }
    }
}

/* Packs rows [first, end) of a tile, `factors` being its first row's; the others are multiplied by
 * zeros. */
static uint8_t *pack_tile(const uint8_t *tile, const float *factors, size_t first, size_t end,
                          uint8_t *out) {
    for (size_t block = 0; block < TILE_BLOCKS; block++, out += packed_bytes(true)) {
        const uint8_t *code = tile + 2 * block * TILE_HEIGHT;
        float *scales = packed_scale(true, out), *minima = scales + Q4_ROWS;
        pack_levels(tile, block, out);
        for (size_t r = 0; r < Q4_ROWS; r++) {
            const bool is_inside = r >= first && r < end;
            scales[r] = is_inside ? (float)code[r] * factors[2 * r] : 0;
            minima[r] = is_inside ? (float)code[TILE_HEIGHT + r] * factors[2 * r + 1] : 0;
        }
    }
    return out;
}

/* Rows [first, end) of those that a row of tiles has. */
static void integers_q4(size_t m, const struct integer_block *a, size_t across, const uint8_t *tile,
                        const float *factors, size_t first, size_t end, struct fetch *fetch,
                        float *c, size_t ldc) {
    float total[CACHED_INTEGER_ROWS * Q4_ROWS];
    memset(total, 0, m * Q4_ROWS * sizeof *total);
    for (size_t i = 0, n; i < across; i += n) {
        _Alignas(64) uint8_t packed[PACKED_BLOCKS * (Q4_ROWS * (TILE_BLOCK + 2 * sizeof(float)))],
            *out = packed;
        n = across - i < PACKED_TILES ? across - i : PACKED_TILES;
        for (size_t t = 0; t < n; t++, tile += tile_bytes(Q4_TOP))
            out = pack_tile(tile, factors, first, end, out);
        add_blocks(true, m, a + i, across, n * TILE_BLOCKS, packed, fetch, total);
    }
    store_totals(m, total + first, Q4_ROWS, end - first, c, ldc);
}

static void integer_product_q4(size_t m, const struct integer_block *a, const struct tile_rows *b,
                               struct fetch *fetch, float *c, size_t ldc) {
    const size_t across = tiles_across(b->n_col), most = CACHED_INTEGER_ROWS,
                 last = b->skip + b->n_row;
    for (size_t t = 0; t < m; t += most) {
        for (size_t low = 0; low < last; low += TILE_HEIGHT) {
            const size_t first = low < b->skip ? b->skip : low,
                         end = last - low < TILE_HEIGHT ? last : low + TILE_HEIGHT;
            integers_q4(m - t < most ? m - t : most, a + t * across, across,
                        b->tile + low / TILE_HEIGHT * tile_row_bytes(Q4_TOP, b->n_col),
                        b->factors + 2 * low, first - low, end - low, fetch,
                        c + t * ldc + (first - b->skip), ldc);
        }
    }
}

static const struct integer_products integer_products = {.round = round_integers,
                                                         .pack_q8 = pack_integers_q8,
                                                         .q8 = integer_product_q8,
                                                         .q4 = integer_product_q4};
