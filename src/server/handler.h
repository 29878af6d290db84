/* The handlers of the commands: exactly one for each row of the table, of the kind that the row
 * names. */
#ifndef TN_SERVER_HANDLER_H
#define TN_SERVER_HANDLER_H

#include "server/request.h"

struct server_connection;

enum server_step {
    SERVER_DONE, /* answered, or being worked on */
    SERVER_WAIT, /* the client must wait: call the handler again later */
};

/* Answers, or makes the connection wait. */
typedef enum server_step server_session(struct server_connection *connection,
                                        const struct tn_bytes *argv, uint32_t argc);
/* The call is parsed and judged. OK: the reply is in request->w. NOT_YET: the read needs a tick
 * first. */
typedef enum tn_result server_reader(struct server_request *request);
/* The call is parsed and judged. Completes the command and calls server_write_submit. */
typedef enum tn_result server_writer(struct server_request *request);
/* The call is parsed and judged. Answers request->slot, now or later. */
typedef void server_job(struct server_request *request);

/* Called after a write was committed with the result OK. */
typedef void server_committed(struct server_owners *owners, const struct server_slot *slot);

/* Exactly one of the first four is set, according to the row's kind. */
struct server_handler {
    server_session *session;
    server_reader *read;
    server_writer *write;
    server_job *job;
    server_committed *committed; /* of a write, or NULL */
};

extern const struct server_handler server_handlers[PROTOCOL_COMMANDS];

/* session.c, info.c */
server_session session_auth;
server_session session_client_getname;
server_session session_client_id;
server_session session_client_kill;
server_session session_client_list;
server_session session_client_setinfo;
server_session session_client_setname;
server_session session_command;
server_session session_command_count;
server_session session_command_docs;
server_session session_command_info;
server_session session_command_list;
server_session session_config_get;
server_session session_echo;
server_session session_hello;
server_session session_info;
server_session session_ping;
server_session session_quit;
server_session session_readonly;
server_session session_readwrite;
server_session session_reset;
server_session session_select;
server_session session_time;

/* sentinel.c */
server_session session_role;
server_session session_sentinel_ckquorum;
server_session session_sentinel_get_master_addr;
server_session session_sentinel_master;
server_session session_sentinel_masters;
server_session session_sentinel_replicas;
server_session session_sentinel_sentinels;

/* subscribe.c */
server_session session_subscribe;
server_session session_psubscribe;
server_session session_unsubscribe;
server_session session_punsubscribe;

/* pool_history.c */
server_reader read_pool_history;

/* read_pools.c */
server_reader read_pool;
server_reader read_pools;
server_reader read_pool_metrics;

/* reads.c */
server_reader read_lease;
server_reader read_leases;
server_reader read_verify;
server_reader read_value;
server_reader read_values;
server_reader read_rule;
server_reader read_rules;
server_reader read_sensors;
server_reader read_sensor;
/* read_events.c; if request->more is set, the unfinished page is kept for the client. */
server_reader read_events;
/* node_commands.c */
server_reader read_nodes;
/* user_commands.c */
server_reader read_users;
server_reader read_whoami;
/* sensor.c */
server_reader read_sensor_heartbeat;
server_reader read_sensor_rules;
server_reader read_sensor_logs;
server_reader read_sensor_status;
/* token_commands.c */
server_reader read_token_introspect;
server_reader read_token_issue;
server_reader read_token_keys;
server_reader read_token_refresh;
server_reader read_token_sensor;

/* write.c: submits the command as parsed. All other writers end by calling it. */
server_writer server_write_submit;
/* sensor.c */
server_writer write_emit;
server_committed write_emit_committed;
server_writer write_sensor_set;
/* token_commands.c */
server_committed write_token_revoke_committed;
/* user_commands.c: USER ADD and SET */
server_writer write_user;
server_writer write_user_delete;

/* jobs.c */
server_job job_snapshot;
server_job job_token_rotate;
/* backup_job.c */
server_job job_backup_begin;
server_job job_backup_end;
server_job job_backup_read;
/* node_commands.c */
server_job job_node_close;
server_job job_node_forget;
server_job job_node_step_down;
/* sensor.c */
server_job job_sensor_reset;
server_job job_sensor_restart;

#endif
