/*
 * What the server's log says where scans find no room: which setting to raise, and not more often
 * than every TELL_EVERY.
 *
 * The counter `refused` of pg_pagecast_stats has them all; but nobody looks there who does not know
 * that something is missing.
 */
#include "pg_pagecast.h"

#include "utils/guc.h"
#include "utils/lsyscache.h"

/* Nanoseconds. */
#define TELL_EVERY (600 * UINT64CONST(1000000000))

/* A scan of a relation was refused a part in `what`; `limit` is why. */
void
refusal_tell(Oid relation, const char *what, RoomLimit limit)
{
	uint64		now = pagecast_now();
	uint64		told = pg_atomic_read_u64(&shared->refusal_told);
	const char *setting = limit == ROOM_MEMORY ? "pg_pagecast.memory" : "pg_pagecast.max_scans";
	const char *name;

	/* 0: never. Of two processes at once one tells. */
	if ((told != 0 && now < told + TELL_EVERY) || !pg_atomic_compare_exchange_u64(&shared->refusal_told, &told, now))
		return;
	name = get_rel_name(relation);
	ereport(LOG,
			(errmsg("pg_pagecast has no room for a scan of \"%s\", which runs without %s", name ? name : "(dropped)", what),
			 errdetail("Refused since the counters were reset: %llu. This is said at most once in %d minutes.",
					   (unsigned long long) pg_atomic_read_u64(&shared->counters[COUNT_REFUSED]), (int) (TELL_EVERY / 60 / UINT64CONST(1000000000))),
			 limit == ROOM_FIXED ? errhint("No more than %d scans cooperate at once.", MOST_COOPERATING) :
			 errhint("Raise %s, which is %s, and restart the server.", setting, GetConfigOptionByName(setting, NULL, false))));
}
