/* SPDX-License-Identifier: MIT */
/* The MESSAGE_ID of everything an operator may want to find, count or be told about. Each one has a text
 * in tracer.catalog; keep both: tests/unit/systemd/test-catalog holds one to the other. An id never
 * changes its meaning, and a meaning that is gone keeps its id here, marked so. */
#pragma once

#define MESSAGE_STARTED		    "f59a16dfc78e4efea98451f9ca8fa879"
#define MESSAGE_SNAPSHOT_WRITTEN    "8c198559e3374a6fb1a4ea280006cf4f"
#define MESSAGE_SNAPSHOT_FAILED	    "6ccbb39bc69c45779a5d1d1f2c3f18c4"
#define MESSAGE_SNAPSHOT_SUPPRESSED "687c1082e2ce4a419d34f7e2aa865c79"
#define MESSAGE_SNAPSHOT_EXPLAINED  "55f35656f2fb481397503b5bc6ce2fd8"
#define MESSAGE_PRODUCER_CRASHED    "1b3783f40fff4abcb407a229696a74b5"
#define MESSAGE_PRODUCER_REFUSED    "9324ec6d89de42d2911fa13c3664355e"
#define MESSAGE_CONFIG_REJECTED	    "8a92d189ada94e10bba0a4053491874b"
#define MESSAGE_SESSION_STARTED	    "d362ca9f9b204d4cbf443dbcce364fb1"
#define MESSAGE_SESSION_STOPPED	    "242e70a077dc4ac590a8dec30e04352d"
#define MESSAGE_TRACE_WRITTEN	    "85277dd6c56243dfbd90395cb6a82890"
#define MESSAGE_OUTPUT_FAILED	    "15287519773c4984903de0bbe5efa5a2"
#define MESSAGE_OUTPUT_RESUMED	    "6311a01de55049238fa846b53271b2c2"
#define MESSAGE_BACKING_FAILED	    "f9975aea62cc4d6e9ee1a45415dbaab7"
#define MESSAGE_BACKING_RESUMED	    "0e20c91192214d4e936470cd0c28a14b"
#define MESSAGE_RECOVERED	    "351cb6257dc74acf8cf39e57ff80c6eb"
#define MESSAGE_RECOVERED_PART	    "601d66f3d168423394094e6030d94a3e"
#define MESSAGE_CORRUPT		    "f7d50e84e3f0467c967c8b8a67ba3c0d"
#define MESSAGE_STATE_RESTORED	    "9e2d616de6174d238ebe3043b47df8b2"
#define MESSAGE_STATE_REFUSED	    "ca1ece08d1a94ee288a7f3409382e5ce"
#define MESSAGE_STATE_SET_ASIDE	    "c6d1856ce36e454aa8bfd9847f8c13ff"
