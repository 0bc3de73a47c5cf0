//! Places among the queries that run, and who needs none.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::{Expr, LogicalPlan};
use tokio::sync::OwnedSemaphorePermit;

use super::catalog::CATALOG;
use super::problem::Problem;
use super::server::Client;
use super::status;
use super::turns::Place;

/// Held while a query runs.
pub(super) struct Places {
    _own: Option<OwnedSemaphorePermit>,
    _all: Option<Place>,
    _catalog: Option<OwnedSemaphorePermit>,
}

/// What a statement must have to run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Need {
    /// It reads one table of the catalog, or the status, or gives constants, as it is asked for by
    /// who wants to know whether somebody answers: there is next to nothing to do.
    Nothing,
    /// It reads the catalog alone. Where all places are taken there are a few for these.
    Catalog,
    Place,
}

impl Need {
    pub(super) fn of(plan: &LogicalPlan) -> Self {
        if let LogicalPlan::Projection(constants) = plan
            && matches!(*constants.input, LogicalPlan::EmptyRelation(_))
            && constants.expr.iter().all(|expr| matches!(expr.clone().unalias(), Expr::Literal(..)))
        {
            return Self::Nothing;
        }
        let (mut scans, mut all_of_catalog, mut is_plain) = (0, true, true);
        let looked = plan.apply_with_subqueries(|node| {
            match node {
                LogicalPlan::TableScan(scan) => {
                    scans += 1;
                    let schema = scan.table_name.schema();
                    all_of_catalog &=
                        schema.is_some_and(|schema| [CATALOG, status::OWN, "information_schema"].contains(&schema));
                }
                LogicalPlan::Projection(_)
                | LogicalPlan::Filter(_)
                | LogicalPlan::Sort(_)
                | LogicalPlan::Limit(_)
                | LogicalPlan::SubqueryAlias(_)
                | LogicalPlan::Aggregate(_) => {}
                LogicalPlan::Unnest(_) | LogicalPlan::RecursiveQuery(_) => (is_plain, all_of_catalog) = (false, false),
                _ => is_plain = false,
            }
            Ok(TreeNodeRecursion::Continue)
        });
        match (looked.is_ok() && scans > 0 && all_of_catalog, is_plain && scans == 1) {
            (false, _) => Self::Place,
            (true, true) => Self::Nothing,
            (true, false) => Self::Catalog,
        }
    }
}

/// Waits for a place: first among the user's queries, if they are limited, then among all. Where
/// nobody needs a name, clients take turns by the name that they give.
pub(super) async fn admit(client: &Client, need: Need) -> Result<Places, Problem> {
    let closed = |_| Problem::fatal("57P01", "the server is shut down");
    if need == Need::Nothing {
        return Ok(Places { _own: None, _all: None, _catalog: None });
    }
    let _waits = client.entry.waiting();
    let own = match &client.account.places {
        Some(places) => Some(Arc::clone(places).acquire_owned().await.map_err(closed)?),
        None => None,
    };
    let place = client.server.places.place(&client.entry.user);
    let (all, catalog) = match need {
        Need::Catalog => {
            tokio::select! {
                biased;
                place = place => (Some(place), None),
                place = Arc::clone(&client.server.catalog_places).acquire_owned() => {
                    (None, Some(place.map_err(closed)?))
                }
            }
        }
        _ => (Some(place.await), None),
    };
    Ok(Places { _own: own, _all: all, _catalog: catalog })
}
