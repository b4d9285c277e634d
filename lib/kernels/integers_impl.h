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

/* A block's part of R rows of weights: elements 4 i to 4 i + 3 of row r at 4 R i + 4 r. */
enum { QUAD = 4 };
typedef uint8_t packed_block[Q8_BLOCK * MOST_PACKED_ROWS];

/* The next n blocks of packed rows, at most half a first-level cache, and what a block's sums are
 * multiplied by for each row. */
enum { PACKED_BLOCKS = 8 };
struct packed {
    size_t n;
    packed_block block[PACKED_BLOCKS];
    float scale[PACKED_BLOCKS][MOST_PACKED_ROWS];
    float minimum[PACKED_BLOCKS][Q4_ROWS]; /* of q4 alone */
};

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

/* The sums of a block of the packed weights, from element `first` of the activations' block on, for
 * `rows` rows of activations. */
static inline __attribute__((always_inline)) void
integer_sums(const bool q4, const int rows, const struct integer_block *a, size_t lda, size_t first,
             const uint8_t *b, struct fetch *fetch,
             ivec sum[MOST_INTEGER_ROWS][MOST_PACKED_VECTORS]) {
    const int vectors = packed_vectors(q4);
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < vectors; v++) {
        const int16_t *sums = a[(size_t)r * lda].sum;
        sum[r][v] = (ivec){0} - (q4 ? 0 : OFFSET) * (sums[0] + sums[1]);
    }
    const size_t quads = (q4 ? TILE_BLOCK : Q8_BLOCK) / QUAD;
    const bool fetches = rows == MOST_INTEGER_ROWS;
    const char *later = fetches ? take_fetch(fetch, quads * FETCH_LINES * FETCH_LINE, a) : NULL;
    for (size_t i = 0; i < quads; i++, b += QUAD * packed_rows(q4)) {
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

/* Adds to total[rows, packed_rows(q4)] what the packed blocks give, of weights in q8 from the
 * beginning of a block of the activations on, in q4 from that of one of its halves. */
static inline __attribute__((always_inline)) void add_rows(const bool q4, const int rows,
                                                           const struct integer_block *a,
                                                           size_t lda, const struct packed *b,
                                                           struct fetch *fetch, float *total) {
    const size_t halves = q4 ? Q8_BLOCK / TILE_BLOCK : 1;
    const int vectors = packed_vectors(q4);
    for (size_t i = 0; i < b->n; i++) {
        const size_t half = i % halves;
        const struct integer_block *x = a + i / halves;
        ivec sum[MOST_INTEGER_ROWS][MOST_PACKED_VECTORS];
        integer_sums(q4, rows, x, lda, half * TILE_BLOCK, b->block[i], fetch, sum);
        UNROLL for (int r = 0; r < rows; r++) {
            const struct integer_block *y = x + (size_t)r * lda;
            UNROLL for (int v = 0; v < vectors; v++) {
                const vec integer = __builtin_convertvector(sum[r][v], vec),
                          scale = load_f32(b->scale[i] + v * LANES);
                float *at = total + (size_t)r * packed_rows(q4) + v * LANES;
                vec part;
                if (q4)
                    part = (integer * scale -
                            splat((float)y->sum[half]) * load_f32(b->minimum[i] + v * LANES)) *
                           splat(y->scale);
                else
                    part = integer * (scale * splat(y->scale));
                store_f32(at, load_f32(at) + part);
            }
        }
    }
}

/* The same for m rows. */
static inline __attribute__((always_inline)) void add_blocks(const bool q4, size_t m,
                                                             const struct integer_block *a,
                                                             size_t lda, const struct packed *b,
                                                             struct fetch *fetch, float *total) {
    size_t r = 0;
    for (; r + MOST_INTEGER_ROWS <= m; r += MOST_INTEGER_ROWS)
        add_rows(q4, MOST_INTEGER_ROWS, a + r * lda, lda, b, fetch, total + r * packed_rows(q4));
    for (; r + 2 <= m; r += 2)
        add_rows(q4, 2, a + r * lda, lda, b, fetch, total + r * packed_rows(q4));
    if (r < m)
        add_rows(q4, 1, a + r * lda, lda, b, fetch, total + r * packed_rows(q4));
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

/* Packs a block of Q8_ROWS rows, which are `stride` bytes from each other. */
static inline void pack_q8(const int8_t *b, size_t stride, packed_block out) {
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
static void pack_q8_edge(const int8_t *b, size_t stride, size_t n, size_t columns,
                         packed_block out) {
    int8_t whole[Q8_ROWS * Q8_BLOCK] = {0};
    for (size_t r = 0; r < n; r++)
        memcpy(whole + r * Q8_BLOCK, b + r * stride, columns);
    pack_q8(whole, Q8_BLOCK, out);
}

/* Packs n blocks of `rows` rows, which have `columns` columns from there on. */
static void pack_rows_q8(size_t n, size_t rows, size_t columns, size_t k, const int8_t *b,
                         const float *scale, struct packed *out) {
    const size_t blocks = q8_blocks(k);
    out->n = n;
    for (size_t i = 0; i < n; i++, b += Q8_BLOCK, scale++, columns -= Q8_BLOCK) {
        for (size_t r = 0; r < Q8_ROWS; r++) /* of the next rows */
            __builtin_prefetch(b + (Q8_ROWS + r) * k, 0, 2);
        if (rows == Q8_ROWS && columns >= Q8_BLOCK)
            pack_q8(b, k, out->block[i]);
        else
            pack_q8_edge(b, k, rows, columns < Q8_BLOCK ? columns : Q8_BLOCK, out->block[i]);
        if (rows == Q8_ROWS)
            UNROLL for (size_t r = 0; r < Q8_ROWS; r++) out->scale[i][r] = scale[r * blocks];
        else
            for (size_t r = 0; r < Q8_ROWS; r++)
                out->scale[i][r] = r < rows ? scale[r * blocks] : 0;
    }
}

static void integers_q8(size_t m, const struct integer_block *a, size_t n, size_t k,
                        const int8_t *b, const float *scale, struct fetch *fetch, float *c,
                        size_t ldc) {
    const size_t blocks = q8_blocks(k), rows = n < Q8_ROWS ? n : Q8_ROWS;
    float total[CACHED_INTEGER_ROWS * Q8_ROWS];
    memset(total, 0, m * Q8_ROWS * sizeof *total);
    for (size_t i = 0; i < blocks; i += PACKED_BLOCKS) {
        struct packed packed;
        pack_rows_q8(blocks - i < PACKED_BLOCKS ? blocks - i : PACKED_BLOCKS, rows,
                     k - i * Q8_BLOCK, k, b + i * Q8_BLOCK, scale + i, &packed);
        add_blocks(false, m, a + i, blocks, &packed, fetch, total);
    }
    store_totals(m, total, Q8_ROWS, rows, c, ldc);
}

static void integer_product_q8(size_t m, const struct integer_block *a, size_t n, size_t k,
                               const int8_t *b, const float *scale, struct fetch *fetch, float *c,
                               size_t ldc) {
    const size_t blocks = q8_blocks(k), most = CACHED_INTEGER_ROWS;
    for (size_t t = 0; t < m; t += most)
        for (size_t j = 0; j < n; j += Q8_ROWS)
            integers_q8(m - t < most ? m - t : most, a + t * blocks, n - j, k, b + j * k,
                        scale + j * blocks, fetch, c + t * ldc + j, ldc);
}

/* ---- q4 ----------------------------------------------------------------------------------- */

/* Packs a block of a tile.  A line has columns 4 l to 4 l + 3, and those 16 further on. */
static inline void pack_q4(const uint8_t *tile, size_t block, packed_block out) {
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

/* Packs rows [first, end) of n tiles, `factors` being the first tile row's. */
static void pack_rows_q4(size_t n, const uint8_t *tile, const float *factors, size_t first,
                         size_t end, struct packed *out) {
    out->n = n * TILE_BLOCKS;
    memset(out->scale, 0, sizeof out->scale);
    memset(out->minimum, 0, sizeof out->minimum);
    for (size_t i = 0; i < out->n; i++) {
        const size_t block = i % TILE_BLOCKS;
        const uint8_t *from = tile + i / TILE_BLOCKS * tile_bytes(Q4_TOP),
                      *code = from + 2 * block * TILE_HEIGHT;
        pack_q4(from, block, out->block[i]);
        for (size_t r = first; r < end; r++) {
            out->scale[i][r] = (float)code[r] * factors[2 * r];
            out->minimum[i][r] = (float)code[TILE_HEIGHT + r] * factors[2 * r + 1];
        }
    }
}

/* Rows [first, end) of those that a row of tiles has. */
static void integers_q4(size_t m, const struct integer_block *a, size_t across, const uint8_t *tile,
                        const float *factors, size_t first, size_t end, struct fetch *fetch,
                        float *c, size_t ldc) {
    float total[CACHED_INTEGER_ROWS * Q4_ROWS];
    memset(total, 0, m * Q4_ROWS * sizeof *total);
    for (size_t i = 0, n; i < across; i += n) {
        struct packed packed;
        n = across - i < PACKED_BLOCKS / TILE_BLOCKS ? across - i : PACKED_BLOCKS / TILE_BLOCKS;
        pack_rows_q4(n, tile, factors, first, end, &packed);
        tile += n * tile_bytes(Q4_TOP);
        add_blocks(true, m, a + i, across, &packed, fetch, total);
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

static const struct integer_products integer_products = {
    .round = round_integers, .q8 = integer_product_q8, .q4 = integer_product_q4};
