#!/usr/bin/env bash
# What a simulator can show of three sources. The paper of 2025: traces by rule, and tables of what
# each policy misses on them. The thesis of 2011: streams of scans in a closed loop, by how they get
# their rows. AMG-Buffer of 2021: its queries by rule, and its claims beside. Usage:
# reproduction.sh PAGECAST [FIGURE]... (figures: 3 5 6 7 8 9 11 12 algorithm2 slices; amg-3 amg-4
# amg-5 amg-6 amg-7; of the thesis 2011-6.1 2011-6.2 2011-6.3 2011-6.4 2011-columns 2011-6.7
# 2011-7.3 2011-variants; all if none is named). Writes traces and one JSON file a table to
# target/reproduction.
set -euo pipefail

pagecast=$1
shift
figures=${*:-3 5 6 7 8 9 11 12 algorithm2 slices amg-3 amg-4 amg-5 amg-6 amg-7 2011-6.1 2011-6.2 2011-6.3 \
    2011-6.4 2011-columns 2011-6.7 2011-7.3 2011-variants}
out=target/reproduction
mkdir -p "$out"

# simulate NAME WORKLOAD POLICIES SIZES [OPTION]...
simulate() {
    local name=$1 workload=$2 policies=$3 sizes=$4
    shift 4
    echo "== $name: $workload"
    "$pagecast" trace generate "$workload" --seed 1 --out "$out/$name.pct" >"$out/$name.log"
    "$pagecast" simulate "$out/$name.pct" --policies "$policies" --sizes "$sizes" --seed 1 --jobs 1 --json "$out/$name.json" "$@"
}

# amg NAME SIZES PARAMETERS: the published queries under page policies, and buffers of tuples.
amg() {
    local name=$1 sizes=$2 workload="amg($3)"
    simulate "$name-pages" "$workload" lru,lirs,cflru,cfdc,ccf-lru,ad-lru,w-tinylfu,pbm "$sizes" --tuples off --page-size 4KiB
    simulate "$name-tuples" "$workload" pbm "$sizes" --tuples 'mg,amg,amg(spill=on),learn' --page-size 4KiB
}

# closed NAME SEEDS DELIVERIES POLICIES SIZES WORKLOAD...: means over the seeds.
closed() {
    local name=$1 seeds=$2 deliveries=$3 policies=$4 sizes=$5
    shift 5
    echo "== $name"
    "$pagecast" closed-loop "$@" --deliveries "$deliveries" --policies "$policies" --sizes "$sizes" --seed 1 \
        --seeds "$seeds" --json "$out/$name.json" --html "$out/$name.html"
}

# The paper's sampling with bulk eviction, and with statistics and fallback.
bulk="pbm-published(samples=100,bulk=10)"
statistics="pbm-published(frequency=max,fallback=lru)"
all="clock,pbm-pq,pbm-paper,$bulk,pbm(history=off),pbm"
mixed="clock,pbm-pq,pbm-paper,$statistics,pbm(history=off),pbm"
table='pages=8000'
# The thesis' manager loads one chunk at a time.
thesis='unordered(outstanding=1)'

for figure in $figures; do
    case $figure in
    3)
        for workload in dynzipf-like dynzipf-like-cs; do
            simulate "3-$workload" "$workload(reads=400000,pages=8000)" \
                "clock,lru,lru-k,2q,arc,hyperbolic,leanevict,watt,pbm-pq,pbm-paper,$statistics,pbm(history=off),pbm,opt" 10%,30%,50%,70%
        done
        ;;
    5)
        for streams in 8 16 32 64; do
            simulate "5-$streams" "sequential(streams=$streams,$table)" "$all,pbm-pq(version=2011),opt" 30%
            simulate "5-$streams-logical" "sequential(streams=$streams,$table)" "$all" 30% --time logical
        done
        ;;
    6) simulate 6 "sequential(streams=32,$table)" "$all,opt" 20%,30%,45%,60%,80% ;;
    7)
        samples=$(printf "pbm-paper(samples=%s)," 1 2 5 10 20 100)
        ours=$(printf "pbm(samples=%s,history=off)," 5 10 20)
        without="pbm-published(replacement=no),pbm-published(samples=100,replacement=no)"
        for streams in 8 32; do
            simulate "7-$streams" "sequential(streams=$streams,$table)" "$samples$ours$without,$bulk,opt" 30%
        done
        ;;
    8)
        for streams in 8 16 32 64; do
            simulate "8-$streams" "trailing-index(streams=$streams,$table)" "$mixed,opt" 30%
        done
        ;;
    9)
        for streams in 8 16 32 64; do
            simulate "9-$streams" "sequential-index(streams=$streams,queries=4,$table)" "$mixed" 30%
            # As far as the days of TPC-H's dates lead.
            simulate "9-$streams-days" "sequential-index(streams=$streams,queries=4,stray=96,$table)" "$mixed,opt" 30%
        done
        ;;
    11)
        # The paper's 0, 2 and 8 scans of 285,000 pages per million operations, by their share of
        # all reads.
        for skew in 0 0.75 0.99; do
            for scans in 0 1425 5700; do
                simulate "11-$skew-$scans" "ycsb(operations=100000,skew=$skew,scans=$scans,$table)" "$mixed" 36%
            done
        done
        ;;
    12)
        # Scans that make 20, 50, 67 and 80 % of all reads; 5 % of the table are 400 pages.
        for skew in 0.75 0.99; do
            for scans in 625 2500 5000 10000; do
                simulate "12-$skew-$scans" "ycsb(operations=100000,skew=$skew,scans=$scans,$table)" "$mixed" 36%
            done
        done
        ;;
    algorithm2)
        readings=$(for reading in max min mean; do
            printf "pbm-published(frequency=%s),pbm-published(frequency=%s,fallback=lru)," $reading $reading
        done)
        for workload in "sequential(streams=32,$table)" "ycsb(operations=100000,skew=0.75,scans=2500,$table)" \
            "dynzipf-like-cs(reads=400000,pages=8000)"; do
            simulate "algorithm2-${workload%%(*}" "$workload" "clock,pbm-paper,pbm-published(fallback=lru),${readings%,}" 30%
        done
        ;;
    slices)
        slices=$(for version in 2011 2012; do
            printf "pbm-pq(version=$version,slice=%s)," 5 50 500 5000
        done)
        simulate slices "sequential(streams=32,$table)" "pbm-pq(bulk=1),pbm-pq(bulk=128),${slices%,}" 30%
        ;;
    # Of Wang and Jin 2021: an eighth of the table, and the share of it that their memory was.
    amg-3) # figures 3a and 4a; 3b and 4b
        for hybrid in 20 50 80; do amg "amg-3-H$hybrid" 12.5% "hybrid=$hybrid%"; done
        amg amg-3-sizes 3.125%,6.25%,12.5%,25% ''
        amg amg-3-skewed 12.5% inner=skewed
        python3 ci/amg.py "$out" 3
        ;;
    amg-4) # figure 4c
        for reads in 20 50 80; do amg "amg-4-R$reads" 12.5% "reads=$reads%"; done
        python3 ci/amg.py "$out" 4
        ;;
    amg-5)
        amg amg-5 12.5% ''
        python3 ci/amg.py "$out" 5
        ;;
    amg-6)
        amg amg-6 12.5% epochs=100
        python3 ci/amg.py "$out" 6
        ;;
    amg-7) # Their 16 GB, as four times the pages.
        amg amg-7 10% pages=131072
        python3 ci/amg.py "$out" 7
        ;;
    # Table 6.1, and Figure 6.1 in its report. Two pages of each column are read ahead; with 24 the
    # figures of delivery in order are the thesis' own.
    2011-6.1)
        closed 2011-6.1 64 "ordered,ordered(ahead=24),$thesis,unordered(outstanding=1,workers=2)" \
            'lru,pbm,pbm-pq(version=2011)' 40% speeds
        ;;
    2011-6.2) closed 2011-6.2 16 "ordered,$thesis,opportunistic" lru,pbm 20%,40%,60%,80%,100% speeds ;;
    2011-6.3)
        workloads=()
        for speeds in F FS FFS; do
            for sizes in 1+2+5+10+20 1+2+10+50+100 10+30+50+100; do
                workloads+=("speeds(speeds=$speeds,sizes=$sizes)")
            done
        done
        closed 2011-6.3 16 "ordered,$thesis" lru,pbm 40% "${workloads[@]}"
        ;;
    2011-6.4)
        workloads=()
        for size in 10 50; do
            for streams in 1 2 4 8 16 32; do
                workloads+=("speeds(speeds=F,sizes=$size,streams=$streams)")
            done
        done
        closed 2011-6.4 16 "ordered,$thesis,opportunistic" lru,pbm 40% "${workloads[@]}"
        ;;
    # Table 6.2 and Figure 6.5.
    2011-columns)
        closed 2011-columns 16 "ordered,$thesis" lru,pbm 40% 'columns(sets=ABC)' 'columns(sets=ABC+DEF)' \
            'columns(sets=ABC+BCD)' 'columns(sets=ABC+BCD+CDE)' 'columns(sets=ABC+BCD+CDE+DEF)'
        ;;
    # Figures 6.7 a to c, and d to f: joins along the clustering, without scans beside and with.
    2011-6.7)
        pools=20%,40%,60%,80%,100%
        closed 2011-6.7-abc 16 "ordered,$thesis,unordered" lru,pbm $pools joins
        closed 2011-6.7-def 16 "ordered,$thesis,unordered" lru,pbm $pools 'joins(mix=CMJ1+CMJ2+L1+O1)'
        closed 2011-6.7-f 16 "ordered,$thesis" pbm 40% 'joins(mix=CMJ1+CMJ2+L1+O1)'
        closed 2011-6.7-hash 16 ordered,unordered pbm 20%,40%,60% 'joins(by=hash)' 'joins(mix=CMJ1+CMJ2+L1+O1,by=hash)'
        ;;
    # Figure 7.3 in its main point: little is shared where ten streams read ten tables.
    2011-7.3) closed 2011-7.3 16 "ordered,$thesis" lru,pbm 10%,20%,40%,60%,80%,100% 'speeds(streams=10,tables=10,units=24)' ;;
    2011-variants)
        variants=$(printf 'unordered(outstanding=%s),' 1 2 4)$(printf 'unordered(outstanding=1,least=%s),' 4 30)
        variants+='unordered(outstanding=1,workers=4),static(outstanding=1,scans=4)'
        closed 2011-variants 16 "ordered,$variants,opportunistic,opportunistic(workers=4)" pbm 40% speeds 'columns(sets=ABC+BCD+CDE+DEF)'
        ;;
    *)
        echo "$0: no figure \`$figure\`" >&2
        exit 2
        ;;
    esac
done
