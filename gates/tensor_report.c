/* tensor_report.c - see tensor_report.h: the text report. The CSV row is in tensor_csv.c. */
#include "gates/tensor_report.h"

#include <inttypes.h>
#include <string.h>

#include "gates/diff_print.h"

static const char *value_of(const tensor_dump *t, const char *key) {
    const char *value = provenance_get(tensor_dump_provenance(t), key);
    return value == NULL ? "" : value;
}

static void print_side(FILE *out, const char *mark, enum diff_colour c, const tensor_dump *t,
                       const struct diff_view *v) {
    static const char *const keys[] = {"tool", "commit", "backend", "device", "geometry"};
    char text[DIFF_CELL], shape[96];
    const char *name = tensor_dump_name(t);
    fprintf(out, "%s%s %s", diff_ink(v, c), mark, diff_escaped(name, strlen(name), v, text));
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        const char *value = value_of(t, keys[i]);
        int again = strcmp(keys[i], "device") == 0 && strcmp(value, value_of(t, "backend")) == 0;
        if (*value != '\0' && !again) fprintf(out, "  %s", diff_escaped(value, strlen(value), v, text));
    }
    tensor_shape_text(t, shape, sizeof shape);
    fprintf(out, "  %s%s\n", shape, diff_ink(v, DIFF_PLAIN));
}

/* What the tensor is, as far as A says; B says nothing else, or they were not comparable. */
static void print_what(FILE *out, const tensor_dump *a, const struct diff_view *v) {
    const struct provenance *p = tensor_dump_provenance(a);
    char text[DIFF_CELL];
    int n = 0;
    fprintf(out, "tensor     ");
    for (int i = 0; i < p->n; i++) {
        const char *key = p->items[i].key, *value = p->items[i].value;
        if (!tensor_key_identity(key) || strstr(key, "xxh3") != NULL) continue;
        fprintf(out, "%s%s %s", n++ == 0 ? "" : "  ", key, diff_escaped(value, strlen(value), v, text));
    }
    fprintf(out,
            n > 0 ? "\n" : "A does not say which op it is of: only shape and dtype are known to match\n");
}

static void print_census(FILE *out, const struct tensor_distance *d) {
    fprintf(out, "census    ");
    for (int side = 0; side < 2; side++) {
        const struct census *c = &d->census[side];
        fprintf(out, "%s %zu NaN, %zu Inf, %zu subnormal, %zu zero", side == 0 ? " A" : " | B", c->n_nan,
                c->n_pos_inf + c->n_neg_inf, c->n_subnormal, c->n_zero);
    }
    fprintf(out, " of %" PRIu64 "\n", d->n);
    if (d->census[0].n_zero == d->n && d->census[1].n_zero == d->n)
        fprintf(out,
                "note       every element is zero on both sides: an output that nobody wrote looks so too\n");
}

/* ULPs of a quantised tensor are those of its f32 values. */
static const char *ulp_name(const tensor_dump *t) {
    const struct dtype_info *info = dtype_info((int)tensor_dump_shape(t).dtype);
    return info->is_quantised ? "f32" : info->name;
}

static void print_point(FILE *out, const char *name, const tensor_dump *a, const struct tensor_point *p,
                        const struct tensor_distance *d) {
    char at[64];
    if (p->at == UINT64_MAX) return;
    double change = (double)p->b - (double)p->a;
    tensor_index_text(a, p->at, at, sizeof at);
    fprintf(out, "%-10s %s  A %.9g | B %.9g  difference %.6g", name, at, (double)p->a, (double)p->b, change);
    if (d->max_a > 0.0) fprintf(out, " (%.3g of max |a|)", (change < 0 ? -change : change) / d->max_a);
    if (p->ulps != UINT32_MAX) fprintf(out, ", %" PRIu32 " ULP of %s", p->ulps, ulp_name(a));
    fprintf(out, "\n");
}

static void print_distance(FILE *out, const tensor_dump *a, const struct tensor_distance *d) {
    fprintf(out, "differing  %" PRIu64 " of %" PRIu64 " (%.3g %%)\n", d->differing, d->n,
            100.0 * (double)d->differing / (double)d->n);
    print_point(out, "first", a, &d->first, d);
    print_point(out, "worst", a, &d->worst, d);
    fprintf(out, "ULP of %-4s", ulp_name(a));
    for (int i = 0; i < ULP_BUCKETS; i++)
        if (d->ulps.n[i] > 0)
            fprintf(out, "  %s: %" PRIu64, ulp_bucket_name((enum ulp_bucket)i), d->ulps.n[i]);
    fprintf(out, "\n");
    fprintf(out,
            "metrics    max-abs %.6g, rms %.6g; of max |a| = %.6g: max %.3g, rms %.3g; NMSE %.3g; at most "
            "%" PRIu32 " ULP\n",
            d->max_abs, d->rms, d->max_a, d->max_scaled, d->rms_scaled, d->nmse, d->max_ulps);
}

static void print_control(FILE *out, const struct tensor_control *c, const struct diff_view *v) {
    char text[DIFF_CELL];
    const char *source = diff_escaped(c->source, strlen(c->source), v, text);
    if (!c->asked)
        fprintf(out, "control    none given: pass --control DIR\n");
    else if (c->source[0] == '\0')
        fprintf(out, "control    none bears on this verdict\n");
    else if (c->used == 0)
        fprintf(out, "control    none applies: %s\n", source);
    else
        fprintf(out, "control    max-abs %.6g, rms %.6g, from %s\n", c->max_abs, c->rms, source);
}

static enum diff_colour verdict_colour(enum tensor_verdict v) {
    if (v == TENSOR_IDENTICAL) return DIFF_GREEN;
    return v == TENSOR_WITHIN_CONTROL ? DIFF_CYAN : DIFF_RED;
}

void tensor_report_text(FILE *out, const tensor_dump *a, const tensor_dump *b, const struct tensor_diff *r,
                        const struct diff_view *v) {
    print_side(out, "--- A", DIFF_RED, a, v);
    print_side(out, "+++ B", DIFF_GREEN, b, v);
    diff_print_provenance(out, tensor_dump_provenance(a), tensor_dump_provenance(b), tensor_key_note, v);
    if (r->measured) {
        print_what(out, a, v);
        print_census(out, &r->distance);
        if (r->verdict != TENSOR_IDENTICAL) print_distance(out, a, &r->distance);
        if (r->verdict == TENSOR_DIFFERENT || r->verdict == TENSOR_WITHIN_CONTROL)
            print_control(out, &r->control, v);
    }
    fprintf(out, "%sverdict    %s%s: %s\n", diff_ink(v, verdict_colour(r->verdict)),
            tensor_verdict_name(r->verdict), diff_ink(v, DIFF_PLAIN), r->reason);
}
