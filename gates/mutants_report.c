/* mutants_report.c - see mutants.h: the matrix as text and as CSV. */
#include <string.h>

#include "gates/mutants.h"
#include "gates/table.h"

static const enum tier shown[] = {TIER_PARITY, TIER_IDENTITY, TIER_TOLERANCE};
#define N_SHOWN (sizeof shown / sizeof shown[0])

static void print_cell(FILE *out, const struct mutant_result *r, enum tier tier) {
    enum mutant_cell c = mutant_tier_cell(r, tier);
    fprintf(out, " %-12s", c == CELL_NOT_RUN ? "-" : mutant_cell_name(c));
}

/* The first kill, or the first thing that went wrong. */
static const struct mutant_trial *telling(const struct mutant_result *r) {
    const struct mutant_trial *found = NULL;
    for (int i = 0; i < r->n; i++) {
        if (r->trials[i].cell == CELL_KILLED) return &r->trials[i];
        if (found == NULL && r->trials[i].cell == CELL_ERROR) found = &r->trials[i];
    }
    return found;
}

void mutants_print_head(FILE *out) {
    fprintf(out, "%-17s %-7s %-8s %-12s %-12s %-12s %-12s first kill\n", "fault", "where", "size", "parity",
            "identity", "tolerance", "verdict");
}

void mutants_print_row(FILE *out, const struct mutant_result *r) {
    const struct mutant_trial *t = telling(r);
    fprintf(out, "%-17s %-7s %-8s", r->mutant->id, mutant_where_name(r->mutant->where),
            mutant_size_name(r->mutant->size));
    for (size_t i = 0; i < N_SHOWN; i++) print_cell(out, r, shown[i]);
    fprintf(out, " %-12s", mutant_verdict_name(mutant_judge(r)));
    if (t != NULL) fprintf(out, " %s: %.60s", t->gate->id, t->how);
    fprintf(out, "\n");
    fflush(out);
}

static void print_gates(FILE *out, const struct mutants_judgement *j) {
    fprintf(out, "\n%-22s %8s %8s  smallest fault it detects\n", "gate", "reached", "killed");
    for (int i = 0; i < j->n_gates; i++) {
        const struct gate_score *g = &j->gates[i];
        if (g->reached == 0) continue;
        fprintf(out, "%-22s %8d %8d  ", g->gate->id, g->reached, g->killed);
        if (g->smallest != NULL)
            fprintf(out, "%s (%s)\n", g->smallest->id, mutant_size_name(g->smallest->size));
        else
            fprintf(out, "%s\n", j->complete ? "BLIND" : "-");
    }
}

void mutants_print_end(FILE *out, const struct mutants_judgement *j, const struct mutant_result *results,
                       size_t n) {
    print_gates(out, j);
    fprintf(out, "\n");
    for (size_t i = 0; i < n; i++) {
        enum mutant_verdict v = mutant_judge(&results[i]);
        if (v != MUTANT_OK && v != MUTANT_UNREACHED)
            fprintf(out, "%-11s %s: %s\n", mutant_verdict_name(v), results[i].mutant->id,
                    results[i].mutant->description);
    }
    for (int i = 0; i < j->n_gates; i++)
        if (j->complete && j->gates[i].reached > 0 && j->gates[i].killed == 0)
            fprintf(out, "BLIND       %s: killed none of the %d faults that it reached\n",
                    j->gates[i].gate->id, j->gates[i].reached);
    fprintf(out, "forkgate: %zu passed, %zu failed, %zu skipped\n", j->killed,
            j->holes + j->false_alarms + j->unjudged + (size_t)j->n_blind, j->unreached);
}

/* ---- CSV ------------------------------------------------------------------------------------------------------- */
static const char *const columns[] = {"date",     "backend",   "device", "arch", "commit", "command", "id",
                                      "where",    "op",        "class",  "size", "legal",  "tier",    "cell",
                                      "expected", "killed_by", "how",    "ms",   "verdict"};
#define N_COLUMNS ((int)(sizeof columns / sizeof columns[0]))

static void put_killers(table_writer *w, const struct mutant_result *r, enum tier tier) {
    char text[600] = "";
    size_t used = 0;
    for (int i = 0; i < r->n && used < sizeof text; i++)
        if (r->trials[i].gate->tier == tier && r->trials[i].cell == CELL_KILLED)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > 0 ? " " : "",
                                     r->trials[i].gate->id);
    table_put_text(w, text);
}

static void put_how(table_writer *w, const struct mutant_result *r, enum tier tier, enum mutant_cell cell) {
    double ms = 0;
    const char *how = "";
    for (int i = r->n; i-- > 0;) {
        if (r->trials[i].gate->tier != tier) continue;
        ms += r->trials[i].ms;
        if (r->trials[i].cell == cell) how = r->trials[i].how;
    }
    table_put_escaped(w, how, strlen(how));
    table_put_u64(w, (uint64_t)ms);
}

static void put_row(table_writer *w, const struct mutants_header *h, const struct mutant_result *r,
                    enum tier tier) {
    const struct mutant *m = r->mutant;
    enum mutant_cell cell = mutant_tier_cell(r, tier);
    table_put_text(w, h->date);
    table_put_text(w, h->backend);
    table_put_text(w, h->device);
    table_put_text(w, h->arch);
    table_put_text(w, h->commit);
    table_put_text(w, h->command);
    table_put_text(w, m->id);
    table_put_text(w, mutant_where_name(m->where));
    table_put_text(w, m->op);
    table_put_text(w, mutant_class_name(m->class_of));
    table_put_text(w, mutant_size_name(m->size));
    table_put_u64(w, (uint64_t)m->legal);
    table_put_text(w, tier_name(tier));
    table_put_text(w, mutant_cell_name(cell));
    table_put_u64(w, (uint64_t)m->expect[tier]);
    put_killers(w, r, tier);
    put_how(w, r, tier, cell);
    table_put_text(w, mutant_verdict_name(mutant_judge(r)));
    table_end_row(w);
}

enum status mutants_write_csv(const char *path, const struct mutants_header *h,
                              const struct mutant_result *results, size_t n, struct err *err) {
    table_writer *w = NULL;
    RETURN_IF_ERROR(table_writer_open(path, NULL, TABLE_LF, columns, N_COLUMNS, &w, err));
    for (size_t i = 0; i < n; i++)
        for (size_t t = 0; t < N_SHOWN; t++)
            if (mutant_tier_cell(&results[i], shown[t]) != CELL_NOT_RUN) put_row(w, h, &results[i], shown[t]);
    return table_writer_finish(w, err);
}
