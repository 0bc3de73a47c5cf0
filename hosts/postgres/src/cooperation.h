/*
 * What cooperation.c, which registers cooperative scans, and chunk_handout.c, which hands them
 * their chunks, have in common. The lock guards all of it but the atomics.
 */
#ifndef PG_PAGECAST_COOPERATION_H
#define PG_PAGECAST_COOPERATION_H

#include "pg_pagecast.h"

/* A registered scan, by its slot in the manager. */
typedef struct CooperatingScan
{
	uint64		serial;			/* never the same for two scans; 0 while free */
	uint64		member;			/* the manager's name */
	pg_atomic_uint64 reached;	/* when it was last handed a chunk */
	int			owner;			/* process that ends it; of a parallel plan the leader */
	ParallelScanName parallel;
	uint64		found;			/* chunks that were in the pool when they were handed out */
} CooperatingScan;

typedef struct CooperationState
{
	LWLock	   *lock;
	uint64		serial;			/* of the last scan */
	pg_atomic_uint32 active;	/* registered scans */
	CooperatingScan scans[FLEXIBLE_ARRAY_MEMBER];
} CooperationState;

extern CooperationState *cooperation_state;
extern PredictorMemory cooperation_manager;

static inline CooperatingScan *
cooperating_scan(uint64 member)
{
	return &cooperation_state->scans[predictor_slot(member)];
}

/* Whether the scan is registered still. Under the lock. */
static inline bool
cooperation_is_registered(const Cooperation *cooperation)
{
	return cooperation->member != NO_MEMBER && cooperating_scan(cooperation->member)->serial == cooperation->serial;
}

/* Of a scan's chunk, which may be shorter if it is the table's last. */
static inline BlockNumber
chunk_blocks(const Cooperation *cooperation, uint32 chunk)
{
	BlockNumber first = chunk * cooperation->size;

	return Min(cooperation->size, cooperation->blocks - first);
}

extern bool chunk_is_resident(const Cooperation *cooperation, uint32 chunk);

/* Under the lock. */
extern bool cooperation_register_scan(Cooperation *cooperation, const uint64 *resident, uint64 now);
extern void cooperating_scan_end(CooperatingScan *scan);
extern void cooperation_suspend_idle(uint64 now);

#endif							/* PG_PAGECAST_COOPERATION_H */
