/* vocab_merge.c - joins neighbouring symbols, best pair first, until no pair can be joined.
 * Not a tokenizer: the rule that says which pairs may join, and how good a pair is, comes from the family.
 * Idea: a doubly linked list of symbols and a binary heap of candidate pairs. A pair that has changed since it was
 * pushed is recognised by its length when it is popped, so nothing is searched for or removed: n log n for any input.
 * Source: Sennrich et al. 2016 sec. 3.2 (the merges); ours. Exercise: ctest -R unit.vocab */
#include "vocab_impl.h"

#include <stdlib.h>

void merge_free(struct merge_work *w) {
    free(w->symbols);
    free(w->heap);
    *w = (struct merge_work){0};
}

enum status merge_push_symbol(struct merge_work *w, const uint8_t *text, size_t length, int32_t id,
                              struct err *err) {
    if (w->n_symbols == w->symbols_capacity) {
        size_t capacity = w->symbols_capacity == 0 ? 64 : 2 * w->symbols_capacity;
        struct symbol *grown = realloc(w->symbols, capacity * sizeof *grown);
        if (grown == NULL) return err_set(err, STATUS_NOMEM, "no memory for %zu symbols", capacity);
        w->symbols = grown;
        w->symbols_capacity = capacity;
    }
    int32_t index = (int32_t)w->n_symbols;
    w->symbols[w->n_symbols++] =
        (struct symbol){.text = text, .prev = index - 1, .next = -1, .length = (uint32_t)length, .id = id};
    if (index > 0) w->symbols[index - 1].next = index;
    return STATUS_OK;
}

static enum status heap_push(struct merge_work *w, struct merge_entry e, struct err *err) {
    if (w->n_heap == w->heap_capacity) {
        size_t capacity = w->heap_capacity == 0 ? 64 : 2 * w->heap_capacity;
        struct merge_entry *grown = realloc(w->heap, capacity * sizeof *grown);
        if (grown == NULL) return err_set(err, STATUS_NOMEM, "no memory for %zu merge candidates", capacity);
        w->heap = grown;
        w->heap_capacity = capacity;
    }
    size_t i = w->n_heap++;
    while (i > 0 && e.key < w->heap[(i - 1) / 2].key) {
        w->heap[i] = w->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    w->heap[i] = e;
    return STATUS_OK;
}

static struct merge_entry heap_pop(struct merge_work *w) {
    struct merge_entry top = w->heap[0], last = w->heap[--w->n_heap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= w->n_heap) break;
        if (child + 1 < w->n_heap && w->heap[child + 1].key < w->heap[child].key) child++;
        if (last.key <= w->heap[child].key) break;
        w->heap[i] = w->heap[child];
        i = child;
    }
    w->heap[i] = last;
    return top;
}

static enum status propose(const struct vocab *v, struct merge_work *w, int32_t left, merge_rule rule,
                           struct err *err) {
    if (left < 0) return STATUS_OK;
    const struct symbol *l = &w->symbols[left];
    if (l->next < 0) return STATUS_OK;
    const struct symbol *r = &w->symbols[l->next];
    uint32_t order = 0;
    int32_t token = -1;
    if (!rule(v, l, r, &order, &token)) return STATUS_OK;
    return heap_push(w,
                     (struct merge_entry){.key = (uint64_t)order << 32 | (uint32_t)left,
                                          .length = l->length + r->length,
                                          .token = token},
                     err);
}

enum status merge_run(const struct vocab *v, struct merge_work *w, merge_rule rule, struct err *err) {
    w->n_heap = 0;
    for (size_t i = 0; i + 1 < w->n_symbols; i++) RETURN_IF_ERROR(propose(v, w, (int32_t)i, rule, err));
    while (w->n_heap > 0) {
        struct merge_entry e = heap_pop(w);
        int32_t left = (int32_t)(e.key & 0xffffffffu);
        struct symbol *l = &w->symbols[left];
        if (l->length == 0 || l->next < 0) continue;
        struct symbol *r = &w->symbols[l->next];
        /* Both symbols only ever grow to the right and a symbol keeps its start, so an equal length means an
         * unchanged pair. */
        if (l->length + r->length != e.length) continue;
        l->length = e.length;
        l->id = e.token;
        l->next = r->next;
        if (r->next >= 0) w->symbols[r->next].prev = left;
        r->length = 0;
        RETURN_IF_ERROR(propose(v, w, l->prev, rule, err));
        RETURN_IF_ERROR(propose(v, w, left, rule, err));
    }
    return STATUS_OK;
}
