/* fixtures_check.h - are the fixtures that a run relies on those of fixtures/MANIFEST.csv?
 * Not unit.manifest (that looks at every fixture, and at what is not listed): this guards a verdict.
 * Idea: a case table that has shrunk judges less and is greener for it; so its hash is looked at before it is believed.
 * Source: DESIGN of forkgate, section 5 "Agreement is not proof". Exercise: ctest -R cli.run */
#ifndef FORKGATE_FIXTURES_CHECK_H
#define FORKGATE_FIXTURES_CHECK_H

#include "gates/runner.h"

/* Looks at every listed file that the selected tiers read, and that the tables they cannot do without are listed. Appends
 * the result "fixtures.manifest", an ERROR that names the first such file, where one is missing or not what the list says;
 * nothing where all is well. STATUS_NOMEM. */
enum status fixtures_check(const struct runner_options *o, struct run_result *r, struct err *err);

#endif
