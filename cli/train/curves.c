/* The points of a curve, and evaluations. */
#include "curves.h"

#include "cli/io/output.h"

#include <string.h>

bool curves_init(struct curves *c) {
    *c = (struct curves){.evaluations = json_array()};
    return c->evaluations;
}

void curves_free(struct curves *c) {
    json_decref(c->evaluations);
    *c = (struct curves){0};
}

/* Joins every two points into one. */
static void halve_points(struct curves *c) {
    for (size_t i = 0; i < CURVE_POINTS / 2; i++) {
        const struct curve_point *a = &c->point[2 * i], *b = a + 1;
        c->point[i] = (struct curve_point){a->steps + b->steps, a->nats + b->nats, b->rate};
    }
    c->n = CURVE_POINTS / 2;
    c->window *= 2;
}

void curves_add_step(struct curves *c, double nats, double rate) {
    if (c->window == 0)
        c->window = 1;
    if (c->n == 0 || c->point[c->n - 1].steps == c->window) {
        if (c->n == CURVE_POINTS)
            halve_points(c);
        c->point[c->n++] = (struct curve_point){0};
    }
    struct curve_point *last = &c->point[c->n - 1];
    last->steps++;
    last->nats += nats;
    last->rate = rate;
}

bool curves_add_evaluation(struct curves *c, uint64_t step, double nats, double bits,
                           const char *text) {
    json_t *one = json_pack("{s:I, s:o, s:o, s:o}", "step", (json_int_t)step, "nats",
                            output_json_number(nats), "bits", output_json_number(bits), "text",
                            text ? output_json_string(text) : json_null());
    return one && json_array_append_new(c->evaluations, one) == 0;
}

static json_t *points_to_json(const struct curves *c, bool means) {
    json_t *points = json_array();
    uint64_t steps = 0;
    for (size_t i = 0; i < c->n && points; i++) {
        const struct curve_point *p = &c->point[i];
        steps += p->steps;
        json_t *point = json_pack("[I, f, f]", (json_int_t)(means ? steps : p->steps),
                                  means ? p->nats / (double)p->steps : p->nats, p->rate);
        points = output_json_if(json_array_append_new(points, point) == 0, points);
    }
    return points;
}

json_t *curves_points(const struct curves *c) {
    return points_to_json(c, true);
}

json_t *curves_to_json(const struct curves *c) {
    return json_pack("{s:o, s:I, s:O}", "points", points_to_json(c, false), "window",
                     (json_int_t)c->window, "evaluations", c->evaluations);
}

bool curves_from_json(struct curves *c, const json_t *json) {
    json_t *points, *evaluations, *point;
    json_int_t window;
    size_t i;
    if (json_unpack((json_t *)json, "{s:o, s:I, s:o}", "points", &points, "window", &window,
                    "evaluations", &evaluations) != 0 ||
        !json_is_array(points) || json_array_size(points) > CURVE_POINTS || window < 0 ||
        !json_is_array(evaluations))
        return false;
    c->n = 0;
    c->window = (uint64_t)window;
    json_array_foreach(points, i, point) {
        json_int_t steps;
        if (json_unpack(point, "[I, F, F]", &steps, &c->point[i].nats, &c->point[i].rate) != 0 ||
            steps < 1 || steps > window)
            return false;
        c->point[i].steps = (uint64_t)steps;
        c->n = i + 1;
    }
    json_decref(c->evaluations);
    c->evaluations = json_incref(evaluations);
    return true;
}
