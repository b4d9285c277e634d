/* Products of rows in integers of 8 bits with weights in q8 and q4: see struct integer_products.
 *
 * Sixteen rows of weights are packed at a time, so that a lane has a row of them, and meets the
 * same four elements in every lane: a block's sum is whole in its lane.  Weights in q8 are packed
 * with OFFSET added, since instructions multiply unsigned bytes by signed ones. */

/* Rows of weights that are packed together, and of activations that meet them in registers and from
 * the cache. */
enum { PACKED_ROWS = 16, PACKED_VECTORS = PACKED_ROWS / LANES };
enum { MOST_INTEGER_ROWS = LANES == 16 ? 8 : 4, CACHED_INTEGER_ROWS = 64 };
enum { OFFSET = 128 };

/* A block's part of sixteen rows of weights: elements 4 i to 4 i + 3 of row r at 64 i + 4 r. */
enum { QUAD = 4, PACKED_QUADS = QUAD * PACKED_ROWS };
typedef uint8_t packed_block[Q8_BLOCK * PACKED_ROWS];

/* ---- Activations -------------------------------------------------------------------------- */

static void round_integers(size_t m, size_t k, const float *x, size_t ldx,
                           struct integer_block *out) {
    for (; m > 0; m--, x += ldx) {
        for (size_t i = 0; i < k; i += Q8_BLOCK, out++) {
            memset(out->x, 0, sizeof out->x);
            out->scale =
                narrow_to(INTEGER_MOST, x + i, k - i < Q8_BLOCK ? k - i : Q8_BLOCK, out->x);
            for (size_t part = 0; part < Q8_BLOCK / TILE_BLOCK; part++) {
                int sum = 0;
                for (size_t j = 0; j < TILE_BLOCK; j++)
                    sum += out->x[part * TILE_BLOCK + j];
                out->sum[part] = (int16_t)sum;
            }
        }
    }
}

/* ---- Sums --------------------------------------------------------------------------------- */

/* The sums of `quads` times four elements, from element `first` of the activations' block on, for
 * `rows` rows of activations and sixteen of weights, of which `offset` is taken off. */
static inline __attribute__((always_inline)) void
integer_sums(const int rows, const size_t quads, const int offset, const struct integer_block *a,
             size_t lda, size_t first, const uint8_t *b,
             ivec sum[MOST_INTEGER_ROWS][PACKED_VECTORS]) {
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int v = 0; v < PACKED_VECTORS; v++) {
        const int16_t *sums = a[(size_t)r * lda].sum;
        sum[r][v] = (ivec){0} - offset * (sums[0] + sums[1]);
    }
    for (size_t l = 0; l < quads; l++, b += PACKED_QUADS) {
        ivec y[PACKED_VECTORS];
        UNROLL for (int v = 0; v < PACKED_VECTORS; v++)
            memcpy(&y[v], b + v * QUAD * LANES, sizeof y[v]);
        UNROLL for (int r = 0; r < rows; r++) {
            float quad; /* four integers */
            memcpy(&quad, a[(size_t)r * lda].x + first + QUAD * l, sizeof quad);
            const ivec x = (ivec)splat(quad);
            UNROLL for (int v = 0; v < PACKED_VECTORS; v++) sum[r][v] =
                add_quads(sum[r][v], y[v], x);
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
             const uint8_t *b, const struct integer_scales *s, float *total) {
    ivec sum[MOST_INTEGER_ROWS][PACKED_VECTORS];
    integer_sums(rows, (q4 ? TILE_BLOCK : Q8_BLOCK) / QUAD, q4 ? 0 : OFFSET, a, lda, first, b, sum);
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
          const uint8_t *b, const struct integer_scales *s, float *total) {
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
            UNROLL for (size_t j = 0; j < LANES; j++) {
                const uvec bytes = (uvec)part[j] ^ OFFSET * 0x01010101u;
                memcpy(out + (i / QUAD + j) * PACKED_QUADS + QUAD * row, &bytes, sizeof bytes);
            }
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
            for (size_t half = 0; half < 2; half++) /* columns 16 further on */
                memcpy(out + ((size_t)l + 4 * half) * PACKED_QUADS + p * QUAD * LANES, &level[half],
                       sizeof level[half]);
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
