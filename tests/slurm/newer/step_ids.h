/* Lets pyslurm for Slurm 25.11, which names jobs by number, compile against Slurm 26.05, which
 * names them by step id. Given to the compiler with -include; for tests alone. */
#ifndef OTELA_STEP_IDS_H
#define OTELA_STEP_IDS_H

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurmdb.h>

#define JOB_STEP(number)                                        \
	((slurm_step_id_t){ .sluid = 0,                         \
			    .job_id = (uint32_t) (number),      \
			    .step_het_comp = NO_VAL,            \
			    .step_id = NO_VAL })

#define slurm_kill_job(job, signal, flags) slurm_kill_job(JOB_STEP(job), signal, flags)
#define slurm_load_job(message, job, flags) slurm_load_job(message, JOB_STEP(job), flags)
#define slurm_suspend(job) slurm_suspend(JOB_STEP(job))
#define slurm_resume(job) slurm_resume(JOB_STEP(job))
#define slurm_requeue(job, flags) slurm_requeue(JOB_STEP(job), flags)
#define slurm_notify_job(job, words) slurm_notify_job(JOB_STEP(job), words)
#define slurm_get_rem_time(job) slurm_get_rem_time(JOB_STEP(job))
#define slurm_get_end_time(job, end) slurm_get_end_time(JOB_STEP(job), end)
#define slurm_job_node_ready(job) slurm_job_node_ready(JOB_STEP(job))
#define slurm_free_ctl_conf(configuration) slurm_free_conf(configuration)

static inline int job_of_process(pid_t process, uint32_t *job)
{
	slurm_step_id_t step = SLURM_STEP_ID_INITIALIZER;
	int status = (slurm_pid2jobid)(process, &step);

	*job = step.job_id;
	return status;
}
#define slurm_pid2jobid(process, job) job_of_process(process, job)

#ifndef ESLURM_ERROR_ON_DESC_TO_RECORD_COPY
#define ESLURM_ERROR_ON_DESC_TO_RECORD_COPY ESLURM_DISABLED
#endif

#endif
