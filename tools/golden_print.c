/* golden_print.c - see golden_print.h. */
#include "tools/golden_print.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build_info.h"
#include "gates/table.h"

#define GAPS_SHOWN 5

static void short_hash(const struct hash128 *h, char out[13]) {
    char text[HASH_TEXT_BYTES];
    hash_format(h, text);
    memcpy(out, text, 12);
    out[12] = '\0';
}

void golden_print_list(const struct golden_set *s) {
    printf("%-22s %6s  %-12s  %-12s  %-10s %-8s %-13s %s\n", "name", "tokens", "stream", "logits",
           "gap (nats)", "stop", "commit", "text");
    for (size_t i = 0; i < s->n; i++) {
        const struct golden_entry *e = &s->entries[i];
        char stream[13], logits[13], commit[GOLDEN_COMMIT];
        short_hash(&e->stream_hash, stream);
        short_hash(&e->logits_hash, logits);
        golden_commit_text(e, commit);
        printf("%-22s %6" PRIu64 "  %-12s  %-12s  %-10.3g %-8s %-13s %.28s\n", e->name, e->count, stream,
               logits, e->smallest_gap, e->stop, commit, e->text_head);
    }
    printf("golden: %zu streams\n", s->n);
}

/* ---- one golden ---------------------------------------------------------------------------------------------- */
struct gap {
    double nats;
    uint64_t at;
};

static int by_gap(const void *a, const void *b) {
    const struct gap *x = a, *y = b;
    if (x->nats < y->nats) return -1;
    return x->nats > y->nats;
}

static void print_gaps(const dump *d) {
    uint64_t n = dump_count(d), kept = 0;
    struct gap *gaps = malloc((size_t)n * sizeof *gaps + 1);
    if (gaps == NULL) return;
    for (uint64_t i = 0; i < n; i++) {
        const struct dump_record *r = dump_record_at(d, i);
        if (r->flags & (DUMP_NO_TOP1 | DUMP_NO_TOP2)) continue;
        gaps[kept].nats = (double)r->logit1 - (double)r->logit2;
        gaps[kept++].at = i;
    }
    qsort(gaps, (size_t)kept, sizeof *gaps, by_gap);
    printf("closest    ");
    for (uint64_t i = 0; i < kept && i < GAPS_SHOWN; i++) {
        const struct dump_record *r = dump_record_at(d, gaps[i].at);
        printf("%stoken %" PRIu64 ": %.3g nats (%d over %d)", i == 0 ? "" : ", ", gaps[i].at, gaps[i].nats,
               r->id1, r->id2);
    }
    printf("\n");
    free(gaps);
}

static void print_text(const dump *d) {
    printf("text       ");
    for (uint64_t i = 0; i < dump_count(d); i++) {
        uint32_t n = 0;
        char escaped[1024];
        const uint8_t *text = dump_text(d, i, &n);
        (void)table_escape(text, n, 0, 0, escaped, sizeof escaped);
        printf("%s", escaped);
    }
    printf("\n");
}

void golden_print_entry(const struct golden_entry *e, const dump *d) {
    char hash[HASH_TEXT_BYTES], commit[GOLDEN_COMMIT];
    golden_commit_text(e, commit);
    printf("name       %s\nfile       golden/%s\n", e->name, e->file);
    printf("tokens     %" PRIu64 " of %" PRIu64 ", stop %s\n", e->count, e->n_requested, e->stop);
    hash_format(&e->stream_hash, hash);
    printf("stream     %s\n", hash);
    hash_format(&e->logits_hash, hash);
    printf("logits     %s\n", hash);
    printf("key        %s %s kv=%s logits=%s fa_tkv=%d fa_chunk=%d %s, model %s\n", e->key.arch, e->key.route,
           e->key.kv, e->key.logits, e->key.fa_tkv, e->key.fa_chunk, e->key.sampler, e->model);
    printf("commit     %s\nreplaces   %s\nreason     %s\n", commit,
           e->replaces[0] != '\0' ? e->replaces : "(the first)", e->reason);
    print_gaps(d);
    print_text(d);
    const struct provenance *p = dump_provenance(d);
    for (int i = 0; i < p->n; i++) printf("  %-16s %s\n", p->items[i].key, p->items[i].value);
}

/* ---- a plan -------------------------------------------------------------------------------------------------- */
static void print_changed(const struct refresh_item *item, char mark) {
    printf("  %c %-22s", mark, item->entry.name);
    if (item->n_differ > 0)
        printf(" %" PRIu64 " records (%" PRIu64 "-%" PRIu64 "): ", item->n_differ, item->first, item->last);
    printf(" %s\n", item->summary);
}

static void print_state(const struct refresh_plan *p, enum refresh_state state, const char *title,
                        char mark) {
    if (p->counts[state] == 0) return;
    printf("%s\n", title);
    for (size_t i = 0; i < p->n; i++) {
        const struct refresh_item *item = &p->items[i];
        if (item->state != state) continue;
        if (state == REFRESH_NEW)
            printf("  %c %-22s %" PRIu64 " tokens, least gap %.3g, %s\n", mark, item->entry.name,
                   item->entry.count, item->entry.smallest_gap, item->entry.text_head);
        else
            print_changed(item, mark);
        if (state == REFRESH_REFUSED && item->old == NULL)
            printf("    a new stream outside the named set\n");
        else if (state == REFRESH_REFUSED && item->n_differ == 0)
            printf("    the stream as a whole is outside the named set\n");
        else if (state == REFRESH_REFUSED)
            printf("    record %" PRIu64 " is outside the named set\n", item->outside);
    }
}

void golden_print_modified(void) {
    if (FORKGATE_DIRTY[0] == '1')
        printf("warning    this build has local changes: its goldens will say commit %s+, which nobody can "
               "build again\n",
               FORKGATE_COMMIT);
}

void golden_print_plan(const struct refresh_plan *p) {
    print_state(p, REFRESH_CHANGED, "changed", '~');
    print_state(p, REFRESH_NEW, "new", '+');
    print_state(p, REFRESH_REFUSED, "changed or new, but not named", '!');
    fflush(stdout);
}
