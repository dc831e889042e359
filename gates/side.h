/* side.h - one of the two things a comparison is about: this build with some options, another forkgate binary, any engine
 * behind a command line, or a folder of dumps. All of them answer with dumps.
 * Not a comparison, and not in-process magic: only this build is an engine in memory; the others are run as children.
 * Idea: base and candidate are the same kind of thing, so a change is judged against the build before it, and a foreign
 * engine against either, by the code that judges everything else.
 * Source: DESIGN of forkgate, section 8 (--base, --engine-cmd). Exercise: ctest -R unit.side */
#ifndef FORKGATE_SIDE_H
#define FORKGATE_SIDE_H

#include "gates/work_folder.h"

enum side_kind {
    SIDE_ENGINE,  /* this build; config are its options */
    SIDE_BINARY,  /* another forkgate, run with the options of config */
    SIDE_COMMAND, /* "engine --prompt-file {prompt} -n {n} --dump {out} --force {follow}", run by sh -c */
    SIDE_DUMPS    /* a folder of NAME.fgd, or a golden folder (manifest.csv) */
};

struct side {
    enum side_kind kind;
    char spec[2048]; /* binary, command or folder */
    const char *model;
    struct engine_config config;
    const char *fault; /* binary: "FORKGATE_FAULT=id" for the child's environment; NULL: none */
    double timeout_s;  /* of one child; 0: none */
    engine *engine;    /* private: SIDE_ENGINE's, opened when first needed */
};

/* spec NULL: this build. A text with {out} in it: a command ({prompt} and {n} must be there too). A folder: dumps. A file
 * that may be executed: a binary. Anything else is STATUS_USAGE. model is borrowed. */
enum status side_open(const char *spec, const char *model, const struct engine_config *config,
                      struct side *out, struct err *err);
void side_close(struct side *s);

/* This build's engine with the side's options. STATUS_USAGE for the other kinds. */
enum status side_engine(struct side *s, engine **out, struct err *err);

/* Can it be run with other options (geometry, sampler)? ENGINE and BINARY. Can it be forced? Those, and a command that has
 * {follow}. */
int side_takes_options(const struct side *s);
int side_can_follow(const struct side *s);

/* "this build, fa_tkv=16 ..", "binary NAME, ..", "command NAME", "dumps in NAME": one phrase. */
void side_describe(const struct side *s, char *out, size_t room);

/* 1 when a comparison of the two would compare a thing with itself: the same program (by content hash; self is this
 * binary's path) with the same options, the same command, or the same folder. */
enum status side_same(const struct side *a, const struct side *b, const char *self, int *same,
                      struct err *err);

struct side_work {
    const struct work_folder *folder;
    const struct battery *battery;
    generate_progress *progress; /* may be NULL */
    void *ctx;
};
/* Runs the battery, n tokens each; name: of the folder made for the dumps. dir: where they are (a SIDE_DUMPS answers with its
 * own folder). Every dump is verified as it comes. Errors quote a child's last line. */
enum status side_generate(struct side *s, const struct side_work *w, const struct sampler_config *sampler,
                          int n, const char *name, char dir[WORK_PATH], struct err *err);
/* The same, forced along follow_dir/NAME.fgd. */
enum status side_replay(struct side *s, const struct side_work *w, const char *follow_dir, const char *name,
                        char dir[WORK_PATH], struct err *err);

/* The dump of one prompt: dir/NAME.fgd, or the golden with the side's key where dir is a golden folder. STATUS_USAGE when it
 * was made from other bytes than this prompt's; STATUS_FORMAT when it is empty. */
enum status side_open_dump(const struct side *s, const char *dir, const struct battery_prompt *p, dump **out,
                           struct err *err);

#endif
