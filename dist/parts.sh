# shellcheck shell=bash disable=SC2034
# What making the release and trying it have in common; to be sourced.

# The versions of PostgreSQL that there are packages for.
MAJORS=${MAJORS:-15 16 17 18}
PGDG=http://apt.postgresql.org/pub/repos/apt

skip() { echo "skipped: $1"; }

# Runs parts of a script one after the other: `each make "command wheels" "$@"` calls make_command
# and make_wheels, or those of the two that are named.
each() {
    local verb=$1 all part
    read -ra all <<< "$2"
    shift 2
    [ $# -gt 0 ] || set -- "${all[@]}"
    for part in "$@"; do
        declare -F "${verb}_$part" > /dev/null || { echo "no part is called $part; there are ${all[*]}" >&2; exit 2; }
    done
    for part in "$@"; do
        echo "== $part (${SECONDS}s)"
        "${verb}_$part"
    done
}

# Whether this machine can make an empty Debian; otherwise sets `reason`.
require_chroots() {
    reason="no mmdebstrap, which makes an empty Debian for each"
    command -v mmdebstrap >/dev/null
}

# Sets `release` and `mirrors`: the Debian that carries a major version of PostgreSQL, or the one
# that PostgreSQL's own archive has it for.
release_of() {
    mirrors=()
    case $1 in
    15) release=bookworm ;;
    17) release=trixie ;;
    18) release=forky ;;
    *)
        release=bookworm
        local key=/usr/share/postgresql-common/pgdg/apt.postgresql.org.asc
        reason="no release of Debian has PostgreSQL $1, and apt.postgresql.org does not answer"
        curl --silent --fail --head --max-time 20 "$PGDG/dists/$release-pgdg/InRelease" >/dev/null || return 1
        reason="no release of Debian has PostgreSQL $1, and the key of apt.postgresql.org is not here (Debian: postgresql-common)"
        [ -f "$key" ] || return 1
        mirrors=("deb http://deb.debian.org/debian $release main" "deb [signed-by=$key] $PGDG $release-pgdg main")
        ;;
    esac
}

# An empty Debian of `release` with these packages, in which hooks do the work; it is gone in the
# end. A mirror that lags behind wants APT_OPTION='Acquire::Check-Valid-Until "false"'.
chroot_of() {
    local packages=$1
    shift
    mmdebstrap --quiet --variant=minbase --format=null ${APT_OPTION:+--aptopt="$APT_OPTION"} \
        --include="$packages" "$@" "$release" /dev/null "${mirrors[@]}"
}
