"""The model of a video job. Pure; shared by the web server, the scheduler, the runner of a job and the stage host."""
