/* page.h - text for an HTML page: everything foreign is escaped here, and nowhere else.
 * Not a template engine: markup is written with fprintf by those who know it, text goes through these.
 * Idea: prompts are hostile. What leaves here holds no markup, no control byte, no invalid UTF-8 and nothing that reorders
 * what is read after it.
 * Source: ours. Exercise: ctest -R unit.report_html */
#ifndef FORKGATE_PAGE_H
#define FORKGATE_PAGE_H

#include <stddef.h>
#include <stdio.h>

/* Bytes as text: & < > " ' as entities, control bytes, invalid UTF-8, line and direction controls escaped as \xNN (\n, \r,
 * \t, \\ by name). Fit for elements and for attributes in double quotes. */
void page_bytes(FILE *out, const void *bytes, size_t n);
void page_text(FILE *out, const char *text);

/* <NAME CLASS>TEXT</NAME>; class may be NULL. */
void page_element(FILE *out, const char *name, const char *class_name, const char *text);
/* <dt>NAME</dt><dd>TEXT</dd>; nothing when text is NULL or empty. */
void page_fact(FILE *out, const char *name, const char *text);
void page_factf(FILE *out, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Head, style, the start of <body>; and the end. */
void page_begin(FILE *out, const char *title);
void page_end(FILE *out, const char *made_by);

/* Small numbers for people: %.4g, "-" for NaN. */
void page_number(FILE *out, double v);

#endif
