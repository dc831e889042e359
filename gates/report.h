/* report.h - evidence rows as files: CSV (one row per check, RFC 4180) and JUnit XML for CI servers.
 * Not a verdict: rows carry theirs; a file read back gives the same rows.
 * Idea: a PASS row has its numbers too, so that a report can be judged again, and compared with the one before.
 * Source: ours. Exercise: ctest -R unit.report */
#ifndef FORKGATE_REPORT_H
#define FORKGATE_REPORT_H

#include <stddef.h>

#include "gates/gate.h"
#include "gates/table.h"

#define REPORT_SCHEMA 1

/* value / bound; value itself for a bound of 0; NaN where there is no bound. Above 1 is over the limit. */
double report_headroom(const struct evidence *row);

/* Writes all rows to a file (beside it first, then renamed) or to an open stream. */
enum status report_write_csv(const char *path, FILE *stream, enum table_eol eol, const struct evidence *rows,
                             size_t n, struct err *err);

/* Reads a report back. STATUS_FORMAT names the record: another schema, a missing column, an unknown tier or verdict, a
 * verdict that its own numbers contradict (value <= bound and FAIL, or the reverse with PASS). free(*rows). */
enum status report_read_csv(const char *path, struct evidence **rows, size_t *n, struct err *err);

/* One testcase per row; classname "forkgate.TIER.GATE" and a name that is unique within it. */
enum status report_write_junit(const char *path, const struct evidence *rows, size_t n, struct err *err);

/* Text for XML: & < > " escaped, control bytes and invalid UTF-8 replaced by \xNN. Returns bytes needed (no NUL). */
size_t report_xml_escape(const char *text, char *out, size_t room);

#endif
