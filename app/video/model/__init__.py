"""What a video job is. Pure; shared by the web, the scheduler, the runner of a job and the host of the stages."""
