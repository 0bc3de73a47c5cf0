/*
 * Statements that come back, as the scans, the registry and the views know them.
 */
#ifndef PAGECAST_RECURRING_H
#define PAGECAST_RECURRING_H

#include "pg_pagecast.h"

extern void recurring_name(Registration *registration, const PlanState *node, List *which);
extern void recurring_begins(Registration *registration, ScanSlot *slot, uint64 now);
extern bool recurring_ends(const ScanSlot *slot, uint64 now);
extern void recurring_review(uint64 now);
extern void recurring_query_ends(void);
extern size_t recurring_size(void);
extern void recurring_format(void);
extern int	recurring_view(size_t place, PredictorTemplate *view, ScanSlot *slot);
extern bool recurring_forget(uint64 statement);

#endif							/* PAGECAST_RECURRING_H */
