/*
 * Scans that a timer looks at, and when a scan may leave it to that.
 */
#ifndef PAGECAST_SAMPLING_H
#define PAGECAST_SAMPLING_H

#include "pg_pagecast.h"

typedef struct SampledScan SampledScan;

typedef struct SampledScanRoutine
{
	void		(*look) (SampledScan *scan);	/* where it is; in a signal handler */
	/* whether it has read all its blocks; in a signal handler too */
	bool		(*has_ended) (const SampledScan *scan);
	void		(*end) (SampledScan *scan);	/* before its registration ends, or its query; may be NULL */
} SampledScanRoutine;

struct SampledScan
{
	SampledScan *next;
	const EState *state;		/* of its query */
	Registration *registration;
	const SampledScanRoutine *routine;
};

extern void sampling_begin(SampledScan *scan, EState *state, Registration *registration, const SampledScanRoutine *routine);
extern void sampling_stop(SampledScan *scan);
extern void sampling_finish_ended(void);
extern bool sampling_run(const EState *state);
extern void sampling_rest(bool ran);
extern void sampling_end(const EState *state);

/* Since when an observed scan has found all its blocks, and nothing was evicted for any. */
typedef struct Calm
{
	int64		reads;			/* of this process, until then */
	uint64		frontier;
	uint32		blocks;			/* come to since then */
} Calm;

extern bool calm_lasts(const Calm *calm);
extern bool calm_has_come(Calm *calm);

#endif							/* PAGECAST_SAMPLING_H */
