/* mutants.c - see mutants.h: the catalogue and what a matrix says. Running is in mutants_run.c. */
#include "gates/mutants.h"

#include <stdlib.h>
#include <string.h>

#include "gates/model/tolerance_package.h"
#include "gates/table.h"

static const char *const where_names[] = {"twin", "kernel", "both"};
static const char *const class_names[] = {"any", "bitwise", "fa"};
static const char *const size_names[] = {"none", "ulp", "small", "large", "garbage"};
static const char *const cell_names[] = {"not run", "not reached", "survived", "killed", "error"};
static const char *const verdict_names[] = {"ok", "HOLE", "FALSE ALARM", "not reached", "ERROR"};

const char *mutant_cell_name(enum mutant_cell c) {
    return cell_names[c];
}
const char *mutant_verdict_name(enum mutant_verdict v) {
    return verdict_names[v];
}
const char *mutant_size_name(enum mutant_size s) {
    return size_names[s];
}
const char *mutant_where_name(enum mutant_where w) {
    return where_names[w];
}
const char *mutant_class_name(enum mutant_class c) {
    return class_names[c];
}

/* ---- the catalogue ------------------------------------------------------------------------------------------- */
static int word_of(const char *const *names, int n, const char *text) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], text) == 0) return i;
    return -1;
}

static enum status read_word(const table *t, size_t row, const char *column, const char *const *names, int n,
                             int *out, struct err *err) {
    int at;
    RETURN_IF_ERROR(table_need(t, column, &at, err));
    const char *text = table_cell(t, row, at, NULL);
    *out = word_of(names, n, text);
    return *out >= 0 ? STATUS_OK : table_refuse(t, row, err, "%s: no '%s'", column, text);
}

static enum status read_text(const table *t, size_t row, const char *column, char *out, size_t room,
                             struct err *err) {
    int at;
    size_t n;
    RETURN_IF_ERROR(table_need(t, column, &at, err));
    const char *text = table_cell(t, row, at, &n);
    if (n >= room || strlen(text) != n)
        return table_refuse(t, row, err, "%s: '%.40s' is too long", column, text);
    memcpy(out, text, n + 1);
    return STATUS_OK;
}

/* Calls for each blank-separated word of a cell. */
static enum status read_gates(const table *t, size_t row, struct mutant *m, struct err *err) {
    char text[MUTANT_GATES * 32];
    RETURN_IF_ERROR(read_text(t, row, "gates", text, sizeof text, err));
    for (const char *p = text; *p != '\0';) {
        size_t n = strcspn(p, " ");
        if (n == 0 || n >= sizeof m->gates[0] || m->n_gates == MUTANT_GATES)
            return table_refuse(t, row, err, "gates: '%s' is no list of at most %d gates", text,
                                MUTANT_GATES);
        memcpy(m->gates[m->n_gates++], p, n);
        p += n + (p[n] == ' ');
    }
    return m->n_gates > 0 ? STATUS_OK : table_refuse(t, row, err, "gates: empty");
}

static enum status read_expect(const table *t, size_t row, struct mutant *m, struct err *err) {
    char text[64];
    int any = 0;
    RETURN_IF_ERROR(read_text(t, row, "expect", text, sizeof text, err));
    for (char *p = text; *p != '\0';) {
        size_t n = strcspn(p, " ");
        int more = p[n] == ' ';
        p[n] = '\0';
        int tier = tier_from_name(p);
        if (tier < 0) return table_refuse(t, row, err, "expect: no tier '%s'", p);
        m->expect[tier] = any = 1;
        p += n + (size_t)more;
    }
    return any ? STATUS_OK : table_refuse(t, row, err, "expect: empty");
}

static enum status read_mutant(const table *t, size_t row, struct mutant *m, struct err *err) {
    static const char *const legal_names[] = {"0", "1"};
    int where, class_of, size;
    RETURN_IF_ERROR(read_text(t, row, "id", m->id, sizeof m->id, err));
    RETURN_IF_ERROR(read_text(t, row, "op", m->op, sizeof m->op, err));
    RETURN_IF_ERROR(read_word(t, row, "where", where_names, 3, &where, err));
    RETURN_IF_ERROR(read_word(t, row, "class", class_names, 3, &class_of, err));
    RETURN_IF_ERROR(read_word(t, row, "size", size_names, 5, &size, err));
    RETURN_IF_ERROR(read_word(t, row, "legal", legal_names, 2, &m->legal, err));
    RETURN_IF_ERROR(read_text(t, row, "options", m->options, sizeof m->options, err));
    RETURN_IF_ERROR(read_text(t, row, "description", m->description, sizeof m->description, err));
    m->where = (enum mutant_where)where;
    m->class_of = (enum mutant_class)class_of;
    m->size = (enum mutant_size)size;
    if (m->id[0] == '\0' || m->op[0] == '\0' || m->description[0] == '\0')
        return table_refuse(t, row, err, "id, op and description must not be empty");
    if (m->legal != (m->options[0] != '\0') || m->legal != (m->class_of == MUTANT_FA))
        return table_refuse(t, row, err, "legal, options and class fa go together");
    RETURN_IF_ERROR(read_gates(t, row, m, err));
    return read_expect(t, row, m, err);
}

static enum status read_all(const table *t, struct mutant *m, size_t n, struct err *err) {
    for (size_t i = 0; i < n; i++) {
        RETURN_IF_ERROR(read_mutant(t, i, &m[i], err));
        for (size_t k = 0; k < i; k++)
            if (strcmp(m[k].id, m[i].id) == 0) return table_refuse(t, i, err, "id '%s' twice", m[i].id);
    }
    return n > 0 ? STATUS_OK : err_set(err, STATUS_FORMAT, "%s: no fault", table_name(t));
}

enum status mutants_load(const char *path, struct mutant **out, size_t *n, struct err *err) {
    table *t = NULL;
    *out = NULL;
    RETURN_IF_ERROR(table_read(path, &t, err));
    *n = table_rows(t);
    struct mutant *m = calloc(*n + 1, sizeof *m);
    enum status s =
        m == NULL ? err_set(err, STATUS_NOMEM, "%s: out of memory", path) : read_all(t, m, *n, err);
    table_close(t);
    if (s != STATUS_OK) {
        free(m);
        return s;
    }
    *out = m;
    return STATUS_OK;
}

/* ---- judging ------------------------------------------------------------------------------------------------- */
int mutant_row_open(const struct evidence *e) {
    return e->tier == TIER_TOLERANCE && e->verdict == VERDICT_INCONCLUSIVE &&
           (strcmp(e->metric, TOLERANCE_METRIC_RATE) == 0 || strcmp(e->metric, TOLERANCE_METRIC_MOVED) == 0);
}

enum mutant_cell mutant_tier_cell(const struct mutant_result *r, enum tier tier) {
    static const enum mutant_cell order[] = {CELL_KILLED, CELL_ERROR, CELL_SURVIVED, CELL_NOT_REACHED};
    for (size_t k = 0; k < sizeof order / sizeof order[0]; k++)
        for (int i = 0; i < r->n; i++)
            if (r->trials[i].gate->tier == tier && r->trials[i].cell == order[k]) return order[k];
    return CELL_NOT_RUN;
}

/* Bytes may see a legal change (identity); everything else must allow it. */
static enum mutant_verdict judge_legal(const struct mutant_result *r) {
    for (int tier = TIER_PARITY; tier <= TIER_PERF; tier++) {
        enum mutant_cell c = mutant_tier_cell(r, (enum tier)tier);
        if (c == CELL_KILLED && tier != TIER_IDENTITY) return MUTANT_FALSE_ALARM;
        if (c == CELL_ERROR) return MUTANT_UNJUDGED;
    }
    enum mutant_cell seen = mutant_tier_cell(r, TIER_IDENTITY);
    if (seen == CELL_KILLED) return MUTANT_OK;
    return seen == CELL_SURVIVED ? MUTANT_HOLE : MUTANT_UNREACHED;
}

enum mutant_verdict mutant_judge(const struct mutant_result *r) {
    int reached = 0, errors = 0;
    if (r->mutant->legal) return judge_legal(r);
    for (int tier = TIER_PARITY; tier <= TIER_PERF; tier++) {
        enum mutant_cell c = mutant_tier_cell(r, (enum tier)tier);
        reached |= c == CELL_SURVIVED || c == CELL_KILLED;
        errors |= c == CELL_ERROR;
        /* a change of class fa may move bytes: what could hide in one must fall to a tier that is no byte gate */
        int binds = tier != TIER_IDENTITY || r->mutant->class_of == MUTANT_BITWISE;
        if (c == CELL_KILLED && binds) return MUTANT_OK;
    }
    if (errors) return MUTANT_UNJUDGED;
    return reached ? MUTANT_HOLE : MUTANT_UNREACHED;
}

static struct gate_score *score_of(struct mutants_judgement *j, const struct gate *g) {
    for (int i = 0; i < j->n_gates; i++)
        if (j->gates[i].gate == g) return &j->gates[i];
    if (j->n_gates == MUTANTS_GATES) return NULL;
    j->gates[j->n_gates].gate = g;
    return &j->gates[j->n_gates++];
}

static void score_trial(struct mutants_judgement *j, const struct mutant *m, const struct mutant_trial *t) {
    struct gate_score *s = score_of(j, t->gate);
    if (s == NULL || (t->cell != CELL_SURVIVED && t->cell != CELL_KILLED)) return;
    if (m->legal && t->gate->tier != TIER_IDENTITY) return; /* it must survive there */
    s->reached++;
    if (t->cell != CELL_KILLED) return;
    s->killed++;
    if (s->smallest == NULL || m->size < s->smallest->size) s->smallest = m;
}

void mutants_judge(const struct mutant_result *results, size_t n, int complete,
                   struct mutants_judgement *out) {
    memset(out, 0, sizeof *out);
    out->complete = complete;
    for (size_t i = 0; i < n; i++) {
        enum mutant_verdict v = mutant_judge(&results[i]);
        out->killed += v == MUTANT_OK;
        out->holes += v == MUTANT_HOLE;
        out->false_alarms += v == MUTANT_FALSE_ALARM;
        out->unreached += v == MUTANT_UNREACHED;
        out->unjudged += v == MUTANT_UNJUDGED;
        for (int k = 0; k < results[i].n; k++) score_trial(out, results[i].mutant, &results[i].trials[k]);
    }
    for (int i = 0; i < out->n_gates; i++)
        out->n_blind += complete && out->gates[i].reached > 0 && out->gates[i].killed == 0;
}

int mutants_exit_code(const struct mutants_judgement *j) {
    if (j->holes > 0 || j->false_alarms > 0 || j->n_blind > 0) return 1;
    return j->unjudged > 0 || j->killed == 0 ? 2 : 0;
}
