-- What PostgreSQL tells all Gateways of a journal, whoever writes it: 'new KIND ID', 'ended ID' and 'unloaded MODEL'.
CREATE OR REPLACE FUNCTION muster_sessions_tell() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'models' THEN
        PERFORM pg_notify('muster_sessions', left('unloaded ' || NEW.id, 4000));
    ELSIF TG_OP = 'INSERT' THEN
        PERFORM pg_notify('muster_sessions', left('new ' || NEW.kind || ' ' || NEW.id, 4000));
    ELSE
        PERFORM pg_notify('muster_sessions', left('ended ' || NEW.id, 4000));
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE TRIGGER muster_sessions_new AFTER INSERT ON requests
    FOR EACH ROW WHEN (NEW.state = 'waiting') EXECUTE FUNCTION muster_sessions_tell();
CREATE OR REPLACE TRIGGER muster_sessions_ended AFTER UPDATE OF state ON requests
    FOR EACH ROW WHEN (OLD.state = 'waiting' AND NEW.state <> 'waiting') EXECUTE FUNCTION muster_sessions_tell();
CREATE OR REPLACE TRIGGER muster_sessions_unloaded AFTER UPDATE OF unloaded ON models
    FOR EACH ROW WHEN (OLD.unloaded IS NULL AND NEW.unloaded IS NOT NULL) EXECUTE FUNCTION muster_sessions_tell();
